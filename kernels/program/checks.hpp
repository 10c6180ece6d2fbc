// The parts of validate(). Each returns the first error as text that starts with the field's name, or an
// empty string.
#pragma once

#include <string>

#include "kernels/program/program.hpp"

namespace millrace::kernels::checks {

/// Concatenates texts and numbers.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  const auto append = [&out](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      out += std::to_string(part);
    } else {
      out += part;
    }
  };
  (append(parts), ...);
  return out;
}

struct Range {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
inline Range range_of(ElementType type) {
  return {type.lowest(), type.highest()};
}

bool is_legal(ElementType type);

/// True if `value` may stand in a tensor of this integer type. A bipolar tensor may not hold 0.
bool holds(ElementType type, std::int64_t value);

/// Checks a step function that a block with the output `out` applies to accumulators in `range`.
std::string requantise(const Requantise& r, Range range, const Tensor& out);

/// Checks that `accumulator` holds every partial sum, in any order, for elements of the type `input`.
std::string accumulator(const Convolution& c, ElementType input);
std::string accumulator(const SumPool& p, ElementType input);

/// Checks the shapes, types and constants of one block. Its tensor indices must already be checked.
std::string operation(const Program& program, const Block& block);

}  // namespace millrace::kernels::checks
