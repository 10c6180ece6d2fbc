// Encodes integers of a program's types as the hardware does, and runs single blocks through kernels/reference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "kernels/tb/bench.hpp"

namespace millrace::kernels::tb {

using Values = std::vector<std::int64_t>;

/// Returns the element type that the RTL denotes by a number: 0 unsigned, 1 signed, 2 bipolar.
ElementType element_type(int kind, int bits);

/// Returns a random value of the type. The type's extremes come more often than a uniform distribution would give them.
std::int64_t random_value(ElementType type, Rng& rng);
Values random_values(ElementType type, std::size_t count, Rng& rng);

/// Returns the bits that encode a value. The bipolar value -1 is encoded as a 0 bit.
std::int64_t field(ElementType type, std::int64_t value);
Beats to_beats(const Values& values, ElementType type, unsigned lanes);

struct Operand {
  ElementType type;
  std::vector<std::uint32_t> shape;
};

/// Runs `operation` as a program of its own through kernels/reference. Throws std::logic_error with the message of
/// validate() if the program is invalid.
Values run_reference(Operation operation, const std::vector<Operand>& inputs,
                     const std::vector<Values>& values, Operand output);

}  // namespace millrace::kernels::tb
