#include "compiler/explore/shortage.hpp"

#include <cmath>

#include "compiler/explore/format.hpp"

namespace millrace::compiler::explore {
namespace {

/// The least that fits, to a hundredth, where `most` does and 1 does not.
double least_factor(double most, const std::function<bool(double)>& fits) {
  auto low = 100, high = static_cast<int>(std::ceil(most * 100));
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (fits(middle / 100.0) ? high : low) = middle;
  }
  return high / 100.0;
}

/// Where more of one kind does not help, however much.
std::optional<Shortage> least_together(const std::function<bool(const Figures&)>& fits) {
  Figures factors;
  factors.fill(kLargestFactor);
  if (!fits(factors)) return std::nullopt;
  Shortage shortage;
  for (std::size_t k = 0; k < kKinds; ++k) {
    Figures others = factors;
    others[k] = 1;
    if (fits(others))
      factors = others;
    else
      shortage.kinds.push_back(k);
  }
  shortage.factor = least_factor(kLargestFactor, [&](double of_them) {
    Figures some = factors;
    for (auto& one : some)
      if (one > 1) one = of_them;
    return fits(some);
  });
  return shortage;
}

}  // namespace

std::optional<Shortage> find_shortage(const std::function<bool(const Figures&)>& fits) {
  Shortage shortage;
  shortage.factor = kLargestFactor;
  for (std::size_t k = 0; k < kKinds; ++k) {
    const auto fits_with = [&](double of_it) {
      Figures factors;
      factors.fill(1);
      factors[k] = of_it;
      return fits(factors);
    };
    if (!fits_with(shortage.factor)) continue;
    shortage.factor = least_factor(shortage.factor, fits_with);
    shortage.kinds = {k};
  }
  return shortage.kinds.empty() ? least_together(fits) : shortage;
}

std::string names_of(const Shortage& shortage) {
  std::string names;
  for (const auto kind : shortage.kinds)
    names += (names.empty() ? "" : " and ") + std::string(kind_name(kind));
  return names;
}

std::string increase_of(const Shortage& shortage) {
  return number(std::round((shortage.factor - 1) * 100)) + " % more";
}

}  // namespace millrace::compiler::explore
