#include "compiler/explore/packing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/explore/format.hpp"

namespace millrace::compiler::explore {
namespace {

using Operations = std::vector<const Choices*>;

constexpr int kRounds = 30;                   // rounds of the search for prices
constexpr double kFirstStep = 1.2;            // the first round changes a price by at most e to this power
constexpr double kStepShrinks = 0.88;         // factor of the exponent from one round to the next
constexpr double kLeastWeight = 1e-4;         // minimum weight, so that no kind of resource is ever free
constexpr double kPackingSlack = 1e-9;        // a cost above 1 by less than this may still fit
constexpr std::size_t kFewOperations = 8;     // up to this number, kMostLabels and kMostEffort apply
constexpr std::size_t kMostLabels = 200;      // partial choices that are kept for each operation
constexpr std::size_t kMostEffort = 400'000;  // comparisons of partial choices for each call
constexpr std::size_t kFewLabels = 16;        // the limits for more than kFewOperations operations
constexpr std::size_t kLittleEffort = 40'000;

Prices prices_of(const Figures& weights, const Amounts& budget) {
  Prices out{};
  for (std::size_t k = 0; k < kKinds; ++k)
    if (budget[k] > 0) out[k] = weights[k] / static_cast<double>(budget[k]);
  return out;
}

/// Returns by which fraction `used` exceeds the budget, summed over all kinds of resources.
double overshoot(const Amounts& used, const Amounts& budget) {
  double sum = 0;
  for (std::size_t k = 0; k < kKinds; ++k)
    if (used[k] > budget[k])
      sum += static_cast<double>(used[k] - budget[k]) / std::max(1.0, static_cast<double>(budget[k]));
  return sum;
}

/// Chooses the cheapest option of each operation. Returns their total cost.
double choose_cheapest(const Operations& operations, const Prices& prices, Packed& chosen) {
  double cost = 0;
  chosen.used = {};
  chosen.choice.clear();
  for (const auto* of : operations) {
    double least = std::numeric_limits<double>::infinity();
    std::uint32_t cheapest = 0;
    for (const auto n : of->fitting)
      if (const double now = price((*of->options)[n].figures, prices); now < least) {
        least = now;
        cheapest = n;
      }
    cost += least;
    chosen.choice.push_back(cheapest);
    chosen.used += (*of->options)[cheapest].amounts;
  }
  return cost;
}

/// Raises the weights of overused resources, and lowers all other weights.
void reweigh(Figures& weights, const Amounts& used, const Amounts& budget, double step) {
  Figures excess{};
  double most = 1e-12, sum = 0;
  for (std::size_t k = 0; k < kKinds; ++k) {
    const double per_unit = budget[k] > 0 ? 1 / static_cast<double>(budget[k]) : 0;
    excess[k] = static_cast<double>(used[k]) * per_unit - 1;
    most = std::max(most, std::abs(excess[k]));
  }
  for (std::size_t k = 0; k < kKinds; ++k) {
    weights[k] = std::max(kLeastWeight, weights[k] * std::exp(step * excess[k] / most));
    sum += weights[k];
  }
  for (auto& weight : weights) weight /= sum;
}

/// Searches for prices that prove that the operations do not fit: in each round, overused resources become more
/// expensive. Each round's cheapest options are also tried as a solution. If the search finds neither a proof nor a
/// solution, returns the choice that exceeds the budget by least.
Packed search_prices(const Operations& operations, const Amounts& budget, Figures& weights) {
  Packed now{Fit::kUnknown, {}, {}, {}}, nearest;
  Figures best_weights = weights;
  double best_cost = 0, least_over = std::numeric_limits<double>::infinity(), step = kFirstStep;
  for (int round = 0; round < kRounds; ++round, step *= kStepShrinks) {
    const Prices prices = prices_of(weights, budget);
    const double cost = choose_cheapest(operations, prices, now);
    if (cost > best_cost) {
      best_cost = cost;
      best_weights = weights;
    }
    if (cost > 1 + kPackingSlack) return {Fit::kNo, {}, {}, prices};
    const double over = overshoot(now.used, budget);
    if (over == 0) {
      now.fit = Fit::kYes;
      return now;
    }
    if (over < least_over) {
      least_over = over;
      nearest = now;
    }
    reweigh(weights, now.used, budget, step);
  }
  weights = best_weights;
  return nearest;
}

/// Exchanges the option of one operation at a time, as long as this reduces the excess over the budget.
void exchange(const Operations& operations, const Amounts& budget, Packed& packed) {
  double over = overshoot(packed.used, budget);
  for (std::size_t step = 0; over > 0 && step < operations.size(); ++step) {
    double best = over;
    std::size_t operation = 0;
    std::uint32_t instead = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (operations[i]->fitting.size() == 1) continue;
      const auto& options = *operations[i]->options;
      Amounts without = packed.used;
      without -= options[packed.choice[i]].amounts;
      for (const auto n : operations[i]->fitting) {
        const double now = overshoot(without + options[n].amounts, budget);
        if (now >= best) continue;
        best = now;
        operation = i;
        instead = n;
      }
    }
    if (best >= over) break;
    const auto& options = *operations[operation]->options;
    packed.used -= options[packed.choice[operation]].amounts;
    packed.used += options[instead].amounts;
    packed.choice[operation] = instead;
    over = best;
  }
  if (over == 0) packed.fit = Fit::kYes;
}

struct Label {
  Amounts used{};
  double cost = 0;
  std::uint32_t previous = 0, option = 0;
};

/// Returns the options of each operation, without options that are too expensive even if all other operations have
/// their cheapest options. Appends the lowest cost of each operation to `least`.
std::vector<std::vector<Label>> affordable_options(const Operations& operations, const Prices& prices,
                                                   std::vector<double>& least) {
  double all = 0;
  for (const auto* of : operations) {
    least.push_back(std::numeric_limits<double>::infinity());
    for (const auto n : of->fitting)
      least.back() = std::min(least.back(), price((*of->options)[n].figures, prices));
    all += least.back();
  }
  std::vector<std::vector<Label>> kept(operations.size());
  for (std::size_t i = 0; i < operations.size(); ++i)
    for (const auto n : operations[i]->fitting) {
      const Option& one = (*operations[i]->options)[n];
      const double cost = price(one.figures, prices);
      if (all - least[i] + cost <= 1 + kPackingSlack) kept[i].push_back({one.amounts, cost, 0, n});
    }
  return kept;
}

/// Searches for one option for each operation such that all options together fit the budget. The search extends partial
/// choices by one operation at a time. It keeps those that may still fit and that no other partial choice dominates.
/// Returns kNo if certainly nothing fits, and kUnknown if it found nothing but had to drop partial choices.
Packed search_labels(const Operations& operations, const Amounts& budget, const Prices& prices) {
  const std::size_t count = operations.size();
  std::vector<double> least;
  const auto options = affordable_options(operations, prices, least);
  std::vector<Amounts> rest(count + 1, Amounts{});  // [i]: least resources of operations i and later
  std::vector<double> rest_cost(count + 1, 0);      // [i]: least cost of operations i and later
  for (std::size_t i = count; i-- > 0;) {
    Amounts smallest{};
    if (!options[i].empty()) smallest.fill(std::numeric_limits<std::uint64_t>::max());
    for (const auto& one : options[i])
      for (std::size_t k = 0; k < kKinds; ++k) smallest[k] = std::min(smallest[k], one.used[k]);
    rest[i] = rest[i + 1] + smallest;
    rest_cost[i] = rest_cost[i + 1] + least[i];
  }
  const bool few = count <= kFewOperations;
  const std::size_t most_labels = few ? kMostLabels : kFewLabels,
                    most_effort = few ? kMostEffort : kLittleEffort;
  std::size_t effort = 0;
  bool dropped = false;
  std::vector<std::vector<Label>> levels(1, std::vector<Label>(1));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Label> next;
    for (std::uint32_t from = 0; from < levels[i].size(); ++from)
      for (const auto& one : options[i]) {
        const double cost = levels[i][from].cost + one.cost;
        if (cost + rest_cost[i + 1] > 1 + kPackingSlack) continue;
        const Amounts used = levels[i][from].used + one.used;
        if (within(used + rest[i + 1], budget)) next.push_back({used, cost, from, one.option});
      }
    std::stable_sort(next.begin(), next.end(),
                     [](const Label& a, const Label& b) { return a.cost < b.cost; });
    auto& kept = levels.emplace_back();
    for (const auto& label : next) {
      effort += kept.size();
      dropped = dropped || kept.size() >= most_labels || effort > most_effort;
      if (kept.size() >= most_labels || effort > most_effort) break;
      if (std::none_of(kept.begin(), kept.end(),
                       [&](const Label& other) { return within(other.used, label.used); }))
        kept.push_back(label);
    }
    if (kept.empty()) return {dropped ? Fit::kUnknown : Fit::kNo, {}, {}, {}};
  }
  Packed out{Fit::kYes, std::vector<std::uint32_t>(count), levels.back().front().used, {}};
  std::uint32_t at = 0;
  for (std::size_t i = count; i > 0; --i) {
    out.choice[i - 1] = levels[i][at].option;
    at = levels[i][at].previous;
  }
  return out;
}

/// Returns the smallest factor for which `fits` is true, rounded up to a hundredth: above 1, and at most `most`.
double least_factor(double most, const std::function<bool(double)>& fits) {
  auto low = 100, high = static_cast<int>(std::ceil(most * 100));
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (fits(middle / 100.0) ? high : low) = middle;
  }
  return high / 100.0;
}

/// Returns the shortage of several kinds of resources together. Called if no increase of a single kind helps.
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

std::vector<Option> options_within(const Operation& operation, std::uint64_t cycles) {
  const auto& ways = operation.implementations;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order;  // (sum of amounts, implementation)
  for (std::uint32_t i = 0; i < ways.size(); ++i) {
    if (ways[i].interval_cycles > cycles) continue;
    std::uint64_t sum = 0;
    for (const auto amount : ways[i].amounts) sum += amount;
    order.emplace_back(sum, i);
  }
  // An option that uses no more of any resource than another option has no larger sum of resources. So in ascending
  // order of sums, only an earlier option can beat a later one.
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first
                              : ways[a.second].interval_cycles < ways[b.second].interval_cycles;
  });
  std::vector<Option> kept;
  for (const auto& [sum, i] : order) {
    const Amounts& amounts = ways[i].amounts;
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const Option& other) { return within(other.amounts, amounts); }))
      continue;
    Option& one = kept.emplace_back();
    one.implementation = i;
    one.amounts = amounts;
    for (std::size_t k = 0; k < kKinds; ++k) one.figures[k] = static_cast<double>(one.amounts[k]);
  }
  return kept;
}

double price(const Figures& amounts, const Prices& prices) {
  double sum = 0;
  for (std::size_t k = 0; k < kKinds; ++k) sum += amounts[k] * prices[k];
  return sum;
}

Choices choices(const std::vector<Option>& options, const Amounts& budget) {
  Choices out;
  out.options = &options;
  for (std::uint32_t n = 0; n < options.size(); ++n)
    if (within(options[n].amounts, budget)) out.fitting.push_back(n);
  return out;
}

Packed pack(const Operations& operations, const Amounts& budget, Figures& weights) {
  for (const auto* of : operations)
    if (of->fitting.empty()) return {};
  Packed found = search_prices(operations, budget, weights);
  if (found.fit == Fit::kYes || found.proof) return found;
  exchange(operations, budget, found);
  if (found.fit == Fit::kYes) return found;
  return search_labels(operations, budget, prices_of(weights, budget));
}

Figures even_weights() {
  Figures weights;
  weights.fill(1.0 / static_cast<double>(kKinds));
  return weights;
}

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
