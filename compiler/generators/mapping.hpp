// The rules by which Yosys 0.23 (synth_xilinx, UltraScale) maps memories and products as kernels/rtl writes
// them. Found by experiment; test_compiler_calibration compares them with every measurement.
#pragma once

#include <cstdint>

#include "compiler/generators/cost.hpp"

namespace millrace::compiler::generators {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

enum class MemoryStyle { kAuto, kBlock, kDistributed };

/// A memory with one write port and one clocked read port (a FIFO, a row buffer, a loaded table).
Cost simple_dual_port(std::int64_t width, std::int64_t depth, MemoryStyle style);

/// A memory with one write port and one read port whose output is not registered (partial results).
Cost read_modify_write(std::int64_t width, std::int64_t depth);

/// A table of constants behind a register. All zero if it is mapped to logic instead of block RAM.
Cost constant_table(std::int64_t width, std::int64_t depth, MemoryStyle style);

/// DSP48E2 of one signed product.
std::uint64_t product_slices(std::int64_t a_bits, std::int64_t b_bits, std::int64_t product_bits);

}  // namespace millrace::compiler::generators
