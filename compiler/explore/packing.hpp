// Whether operations fit into a budget, each built in one of several ways: a multiple-choice knapsack with a few
// dimensions. Also how much more of which resource makes something fit. Private to this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"

namespace millrace::compiler::explore {

/// One number for each kind of resource.
using Figures = std::array<double, kKinds>;

/// An implementation of an operation that no other one makes superfluous.
struct Option {
  std::uint32_t implementation = 0;
  Amounts amounts{};
  Figures figures{};  // the amounts as doubles
};

/// The implementations of at most `cycles` a frame, without those that take as much as another of every resource or
/// more. Among equals the quickest stays.
std::vector<Option> options_within(const Operation& operation, std::uint64_t cycles);

/// The price of one unit of each kind of resource. A whole budget costs 1. If there are prices at which even the cheapest
/// options cost more than 1, the operations do not fit.
using Prices = Figures;

double price(const Figures& amounts, const Prices& prices);

/// The options of one operation, and which of them fit into a budget alone.
struct Choices {
  const std::vector<Option>* options = nullptr;
  std::vector<std::uint32_t> fitting;
};
Choices choices(const std::vector<Option>& options, const Amounts& budget);

enum class Fit { kYes, kNo, kUnknown };

struct Packed {
  Fit fit = Fit::kNo;
  std::vector<std::uint32_t> choice;  // for each operation, the index of its option; if it fits
  Amounts used{};
  std::optional<Prices> proof;  // prices at which the operations cost too much, if such were found
};

/// kNo is proven. kUnknown: neither a choice nor a proof was found within a bounded effort. `weights`: the share of
/// each kind in the first prices, with a sum of 1; afterwards, the shares that came closest to a proof.
Packed pack(const std::vector<const Choices*>& operations, const Amounts& budget, Figures& weights);

/// The same weight for every kind of resource.
Figures even_weights();

constexpr double kLargestFactor = 16;  // no more of a resource than this is tried

struct Shortage {
  std::vector<std::size_t> kinds;  // of resources; more is needed of all of them together
  double factor = 1;               // by which each has to grow; rounded up to a hundredth
};

/// The smallest increase that makes something fit: of one kind of resource if one suffices, otherwise of the
/// smallest set of kinds that does. Nothing if not even kLargestFactor of every kind is enough. `fits` takes
/// a factor for each kind.
std::optional<Shortage> find_shortage(const std::function<bool(const Figures&)>& fits);

/// "DSP", "LUT and DSP".
std::string names_of(const Shortage& shortage);

/// "12 % more".
std::string increase_of(const Shortage& shortage);

}  // namespace millrace::compiler::explore
