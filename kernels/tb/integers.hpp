// Integers of a program's types in the encoding of the hardware, and single blocks run by the reference.
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

/// A random value of the type. The type's extremes come more often than uniform chance would bring them.
std::int64_t random_value(ElementType type, Rng& rng);
Values random_values(ElementType type, std::size_t count, Rng& rng);

/// The bits that encode a value. The bit 0 encodes the bipolar value -1.
std::int64_t field(ElementType type, std::int64_t value);
Beats to_beats(const Values& values, ElementType type, unsigned lanes);

struct Operand {
  ElementType type;
  std::vector<std::uint32_t> shape;
};

/// Runs `operation` alone through kernels/reference. Throws std::logic_error with validate()'s message if the
/// program is invalid.
Values run_reference(Operation operation, const std::vector<Operand>& inputs,
                     const std::vector<Values>& values, Operand output);

}  // namespace millrace::kernels::tb
