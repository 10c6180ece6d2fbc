#include "compiler/explore/packing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::compiler::explore {
namespace {

using Operations = std::vector<const std::vector<Option>*>;

constexpr std::size_t kFewOperations = 8;       // up to so many are gone through thoroughly
constexpr std::size_t kMostLabels = 200;        // partial choices kept an operation
constexpr std::size_t kMostEffort = 4'000'000;  // comparisons of labels a call
constexpr std::size_t kFewLabels = 3;           // the same where there are more operations
constexpr std::size_t kLittleEffort = 100'000;

Amounts smallest(const std::vector<Option>& options) {
  Amounts out;
  out.fill(std::numeric_limits<std::uint64_t>::max());
  for (const auto& option : options)
    for (std::size_t k = 0; k < kKinds; ++k) out[k] = std::min(out[k], option.amounts[k]);
  return out;
}

/// Shares of a budget; what is used of nothing weighs so much that it is avoided.
using Weights = std::array<double, kKinds>;

Weights weights_of(const Amounts& budget) {
  Weights weights;
  for (std::size_t k = 0; k < kKinds; ++k) weights[k] = 1.0 / std::max(1e-3, static_cast<double>(budget[k]));
  return weights;
}

double weigh(const Amounts& amounts, const Weights& weights) {
  double sum = 0;
  for (std::size_t k = 0; k < kKinds; ++k) sum += static_cast<double>(amounts[k]) * weights[k];
  return sum;
}

double overshoot(const Amounts& used, const Amounts& budget, const Weights& weights) {
  double sum = 0;
  for (std::size_t k = 0; k < kKinds; ++k)
    if (used[k] > budget[k]) sum += static_cast<double>(used[k] - budget[k]) * weights[k];
  return sum;
}

/// The cheapest by weight, then exchanged one at a time where that brings the total nearer to the budget.
Packed greedy(const Operations& operations, const Amounts& budget) {
  const Weights weights = weights_of(budget);
  Packed out;
  for (const auto* options : operations) {
    const auto best = std::min_element(options->begin(), options->end(), [&](const auto& a, const auto& b) {
      return weigh(a.amounts, weights) < weigh(b.amounts, weights);
    });
    out.choice.push_back(static_cast<std::uint32_t>(best - options->begin()));
    out.used += best->amounts;
  }
  double over = overshoot(out.used, budget, weights);
  for (std::size_t step = 0; over > 0 && step < 2 * operations.size(); ++step) {
    double best = over, best_weight = 0;
    std::size_t operation = 0, option = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (operations[i]->size() == 1) continue;
      Amounts without = out.used;
      without -= (*operations[i])[out.choice[i]].amounts;
      for (std::size_t j = 0; j < operations[i]->size(); ++j) {
        const Amounts with = without + (*operations[i])[j].amounts;
        const double now = overshoot(with, budget, weights), weight = weigh(with, weights);
        if (now < best || (now == best && now < over && weight < best_weight)) {
          best = now;
          best_weight = weight;
          operation = i;
          option = j;
        }
      }
    }
    if (best >= over) break;
    out.used -= (*operations[operation])[out.choice[operation]].amounts;
    out.choice[operation] = static_cast<std::uint32_t>(option);
    out.used += (*operations[operation])[option].amounts;
    over = best;
  }
  out.fit = over == 0 ? Fit::kYes : Fit::kUnknown;
  return out;
}

struct Label {
  Amounts used{};
  double weight = 0;
  std::uint32_t previous = 0, option = 0;
};

/// All partial choices that none is better than in everything, operation by operation; complete unless cut.
class Labels {
 public:
  Labels(const Operations& operations, const Amounts& budget)
      : operations_(operations), budget_(budget), weights_(weights_of(budget)) {
    rest_.assign(operations.size() + 1, Amounts{});
    for (std::size_t i = operations.size(); i-- > 0;) rest_[i] = rest_[i + 1] + smallest(*operations[i]);
  }

  Packed run() {
    std::vector<std::vector<Label>> levels(1, std::vector<Label>(1));
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      std::vector<Label> next;
      for (std::uint32_t from = 0; from < levels[i].size(); ++from)
        for (std::uint32_t o = 0; o < operations_[i]->size(); ++o) {
          const Amounts used = levels[i][from].used + (*operations_[i])[o].amounts;
          if (within(used + rest_[i + 1], budget_)) next.push_back({used, weigh(used, weights_), from, o});
        }
      keep_best(next);
      if (next.empty()) return {cut_ ? Fit::kUnknown : Fit::kNo, {}, {}};
      levels.push_back(std::move(next));
    }
    Packed out;
    out.fit = Fit::kYes;
    out.used = levels.back().front().used;
    out.choice.resize(operations_.size());
    std::uint32_t at = 0;
    for (std::size_t i = operations_.size(); i > 0; --i) {
      out.choice[i - 1] = levels[i][at].option;
      at = levels[i][at].previous;
    }
    return out;
  }

 private:
  void keep_best(std::vector<Label>& labels) {
    std::stable_sort(labels.begin(), labels.end(),
                     [](const Label& a, const Label& b) { return a.weight < b.weight; });
    const bool few = operations_.size() <= kFewOperations;
    const std::size_t most = few ? kMostLabels : kFewLabels, effort = few ? kMostEffort : kLittleEffort;
    std::vector<Label> kept;
    for (const auto& label : labels) {
      effort_ += kept.size();
      if (kept.size() >= most || effort_ > effort) {
        cut_ = true;
        break;
      }
      const bool worse = std::any_of(kept.begin(), kept.end(),
                                     [&](const Label& other) { return within(other.used, label.used); });
      if (!worse) kept.push_back(label);
    }
    labels = std::move(kept);
  }

  const Operations& operations_;
  const Amounts& budget_;
  Weights weights_;
  std::vector<Amounts> rest_;  // least that operations i.. take
  std::size_t effort_ = 0;
  bool cut_ = false;
};

}  // namespace

std::vector<Option> options_within(const Operation& operation, std::uint64_t cycles) {
  const auto& ways = operation.implementations;
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < ways.size(); ++i)
    if (ways[i].interval_cycles <= cycles) order.push_back(i);
  const auto sum = [&](std::uint32_t i) {
    std::uint64_t total = 0;
    for (const auto amount : ways[i].amounts) total += amount;
    return total;
  };
  // What is no larger in anything has no larger sum: a way can only be beaten by one that stands before it.
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    const auto x = sum(a), y = sum(b);
    return x != y ? x < y : ways[a].interval_cycles < ways[b].interval_cycles;
  });
  std::vector<Option> kept;
  for (const auto i : order)
    if (std::none_of(kept.begin(), kept.end(),
                     [&](const Option& other) { return within(other.amounts, ways[i].amounts); }))
      kept.push_back({i, ways[i].amounts});
  return kept;
}

bool thin(std::vector<Option>& options, const Amounts& budget) {
  constexpr std::size_t kCheapest = 9;
  if (options.size() <= kCheapest + kKinds) return false;
  const Weights weights = weights_of(budget);
  std::stable_sort(options.begin(), options.end(), [&](const Option& a, const Option& b) {
    return weigh(a.amounts, weights) < weigh(b.amounts, weights);
  });
  std::vector<Option> kept(options.begin(), options.begin() + kCheapest);
  for (std::size_t k = 0; k < kKinds; ++k) {
    const auto least =
        std::min_element(options.begin(), options.end(),
                         [k](const Option& a, const Option& b) { return a.amounts[k] < b.amounts[k]; });
    if (least - options.begin() >= static_cast<std::ptrdiff_t>(kCheapest)) kept.push_back(*least);
  }
  options = std::move(kept);
  return true;
}

Packed pack(const Operations& operations, const Amounts& budget, bool thinned) {
  Amounts least{};
  for (const auto* options : operations) {
    if (options->empty()) return {};
    least += smallest(*options);
  }
  if (!within(least, budget)) return {};
  Packed quick = greedy(operations, budget);
  if (quick.fit == Fit::kYes) return quick;
  Packed found = Labels(operations, budget).run();
  if (found.fit == Fit::kNo && thinned) found.fit = Fit::kUnknown;
  return found;
}

}  // namespace millrace::compiler::explore
