// Integers of the program's types as the hardware carries them, and one block run by the reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {

using Values = std::vector<std::int64_t>;

/// The RTL's kinds: 0 unsigned, 1 signed, 2 bipolar.
ElementType element_type(int kind, int bits);

/// Anything the type holds; the extremes more often than chance would bring them.
std::int64_t random_value(ElementType type, Rng& rng);
Values random_values(ElementType type, std::size_t count, Rng& rng);

/// The field a value travels in: a bipolar -1 is 0.
std::int64_t field(ElementType type, std::int64_t value);
Beats to_beats(const Values& values, ElementType type, unsigned lanes);

struct Operand {
  ElementType type;
  std::vector<std::uint32_t> shape;
};

/// Runs `operation` alone through kernels/reference. Throws std::logic_error with validate()'s sentence where
/// the program is refused.
Values run_reference(Operation operation, const std::vector<Operand>& inputs,
                     const std::vector<Values>& values, Operand output);

}  // namespace millrace::kernels::tb
