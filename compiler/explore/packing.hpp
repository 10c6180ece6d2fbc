// Whether operations fit into a budget, each in one of several ways: a multiple-choice knapsack with a few
// dimensions. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/explore/problem.hpp"

namespace millrace::compiler::explore {

/// One number a kind of resource.
using Figures = std::array<double, kKinds>;

/// One way to build an operation that is worth looking at.
struct Option {
  std::uint32_t implementation = 0;
  Amounts amounts{};
  Figures figures{};  // the same
};

/// Implementations of at most `cycles` a frame of which none takes at most as much of everything as another;
/// among equals the quickest.
std::vector<Option> options_within(const Operation& operation, std::uint64_t cycles);

/// What one unit of each kind of resource costs, chosen so that a whole budget costs 1. Whatever the prices:
/// what costs more than 1 built in the cheapest ways does not fit.
using Prices = Figures;

double price(const Figures& amounts, const Prices& prices);

/// The ways to build one operation, and which of them fit into a budget alone.
struct Choices {
  const std::vector<Option>* options = nullptr;
  std::vector<std::uint32_t> fitting;
};
Choices choices(const std::vector<Option>& options, const Amounts& budget);

enum class Fit { kYes, kNo, kUnknown };

struct Packed {
  Fit fit = Fit::kNo;
  std::vector<std::uint32_t> choice;  // for each of the operations, index of its option; where it fits
  Amounts used{};
  std::optional<Prices> proof;  // where it does not fit: prices at which it is too dear, if such were found
};

/// kNo is proven. kUnknown: neither a way nor a proof was found within a bounded effort. `weights`: each
/// kind's share in the prices begun with, 1 together, and afterwards those that said most.
Packed pack(const std::vector<const Choices*>& operations, const Amounts& budget, Figures& weights);

/// Every kind alike.
Figures even_weights();

}  // namespace millrace::compiler::explore
