// Decides whether operations fit into a budget if each has several implementations: a multiple-choice knapsack
// with a few dimensions. Also computes which resources are short, and by how much. Private to this folder.
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

/// An implementation of an operation that no other implementation equals or beats in every respect.
struct Option {
  std::uint32_t implementation = 0;
  Amounts amounts{};
  Figures figures{};  // the amounts as doubles
};

/// Returns the implementations that need at most `cycles` a frame. Leaves out each implementation that uses at least as
/// much of every resource as another. Among implementations with equal amounts, the quickest stays.
std::vector<Option> options_within(const Operation& operation, std::uint64_t cycles);

/// The price of one unit of each kind of resource. A whole budget costs 1. If the cheapest options together
/// cost more than 1 at some prices, the operations do not fit.
using Prices = Figures;

double price(const Figures& amounts, const Prices& prices);

/// The options of one operation, and the indices of those options that fit into a budget if no other operation uses it.
struct Choices {
  const std::vector<Option>* options = nullptr;
  std::vector<std::uint32_t> fitting;
};
Choices choices(const std::vector<Option>& options, const Amounts& budget);

enum class Fit { kYes, kNo, kUnknown };

struct Packed {
  Fit fit = Fit::kNo;
  std::vector<std::uint32_t>
      choice;  // for each operation, the index of its option; set if the operations fit
  Amounts used{};
  std::optional<Prices> proof;  // prices that prove that the operations do not fit, if any were found
};

/// Chooses an option for each operation so that all fit into the budget. kNo is proven; kUnknown means that a bounded
/// effort found neither a choice nor a proof. `weights` contains the share of each kind of resource in the first prices
/// (their sum is 1); pack() changes them to the shares that came closest to a proof.
Packed pack(const std::vector<const Choices*>& operations, const Amounts& budget, Figures& weights);

/// Returns equal weights for all kinds of resources.
Figures even_weights();

constexpr double kLargestFactor = 16;  // the largest increase of a resource that find_shortage() tries

struct Shortage {
  std::vector<std::size_t> kinds;  // the resources that must all grow together
  double factor = 1;               // the factor by which they must grow, rounded up to a hundredth
};

/// Returns the smallest increase of a budget for which `fits` is true: of one kind of resource if that suffices,
/// otherwise of the smallest set of kinds. Returns nothing if even kLargestFactor of every kind is not enough. `fits`
/// takes a factor for each kind.
std::optional<Shortage> find_shortage(const std::function<bool(const Figures&)>& fits);

/// Names the kinds of resources that are short, such as "DSP" or "LUT and DSP".
std::string names_of(const Shortage& shortage);

/// Returns in words by how much a short resource must increase, such as "12 % more".
std::string increase_of(const Shortage& shortage);

}  // namespace millrace::compiler::explore
