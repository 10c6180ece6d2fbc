// Whether operations fit into a budget, each in one of several ways: a multiple-choice knapsack with a few
// dimensions. Private to this folder.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/explore/problem.hpp"

namespace millrace::compiler::explore {

/// One way to build an operation that is worth looking at.
struct Option {
  std::uint32_t implementation = 0;
  Amounts amounts{};
};

/// Implementations of at most `cycles` a frame of which none takes at most as much of everything as another;
/// among equals the quickest.
std::vector<Option> options_within(const Operation& operation, std::uint64_t cycles);

enum class Fit { kYes, kNo, kUnknown };

struct Packed {
  Fit fit = Fit::kNo;
  std::vector<std::uint32_t> choice;  // for each of the operations, index of its option; where it fits
  Amounts used{};
};

/// Of many options those that take least of something, and the cheapest by shares of `budget`: at most
/// about 16. True where some were left out.
bool thin(std::vector<Option>& options, const Amounts& budget);

/// kNo is proven, unless some `thinned` options were left out of account. kUnknown: neither a way nor a proof
/// was found within a bounded effort.
Packed pack(const std::vector<const std::vector<Option>*>& operations, const Amounts& budget,
            bool thinned = false);

}  // namespace millrace::compiler::explore
