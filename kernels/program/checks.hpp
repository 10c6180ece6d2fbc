// The parts of validate(): each returns the first thing that is wrong, starting with the field's name, or
// nothing.
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

/// True where a value may stand in a tensor of this integer type (0 may not in a bipolar one).
bool holds(ElementType type, std::int64_t value);

/// A step function applied to accumulators in `range` by a block whose output is `out`.
std::string requantise(const Requantise& r, Range range, const Tensor& out);

/// `accumulator` against every partial sum of the convolution, in any order, for elements of `input`.
std::string accumulator(const Convolution& c, ElementType input);
std::string accumulator(const SumPool& p, ElementType input);

/// Shapes, types and constants of one block; indices are known to be good.
std::string operation(const Program& program, const Block& block);

}  // namespace millrace::kernels::checks
