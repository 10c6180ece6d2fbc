#include "compiler/explore/lack.hpp"

#include <cmath>

#include "compiler/explore/words.hpp"

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
std::optional<Lack> least_together(const std::function<bool(const Figures&)>& fits) {
  Figures factors;
  factors.fill(kMuchMore);
  if (!fits(factors)) return std::nullopt;
  Lack lack;
  for (std::size_t k = 0; k < kKinds; ++k) {
    Figures others = factors;
    others[k] = 1;
    if (fits(others))
      factors = others;
    else
      lack.kinds.push_back(k);
  }
  lack.factor = least_factor(kMuchMore, [&](double of_them) {
    Figures some = factors;
    for (auto& one : some)
      if (one > 1) one = of_them;
    return fits(some);
  });
  return lack;
}

}  // namespace

std::optional<Lack> least_more(const std::function<bool(const Figures&)>& fits) {
  Lack lack;
  lack.factor = kMuchMore;
  for (std::size_t k = 0; k < kKinds; ++k) {
    const auto fits_with = [&](double of_it) {
      Figures factors;
      factors.fill(1);
      factors[k] = of_it;
      return fits(factors);
    };
    if (!fits_with(lack.factor)) continue;
    lack.factor = least_factor(lack.factor, fits_with);
    lack.kinds = {k};
  }
  return lack.kinds.empty() ? least_together(fits) : lack;
}

std::string names_of(const Lack& lack) {
  std::string names;
  for (const auto kind : lack.kinds) names += (names.empty() ? "" : " and ") + std::string(kind_name(kind));
  return names;
}

std::string more_of(const Lack& lack) {
  return number(std::round((lack.factor - 1) * 100)) + " % more";
}

}  // namespace millrace::compiler::explore
