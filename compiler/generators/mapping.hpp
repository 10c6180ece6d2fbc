// The rules by which Yosys 0.23 (synth_xilinx, UltraScale) maps the memories and products in kernels/rtl. They were
// found by experiment. test_compiler_calibration compares them with every measurement.
#pragma once

#include <cstdint>

#include "compiler/generators/cost.hpp"

namespace millrace::compiler::generators {

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

enum class MemoryStyle { kAuto, kBlock, kDistributed };

/// Returns the cost of a memory with one write port and one clocked read port (a FIFO, a row buffer, a loaded table).
Cost simple_dual_port(std::int64_t width, std::int64_t depth, MemoryStyle style);

/// Returns the cost of a memory with one write port and one unregistered read port (partial results of sums).
Cost read_modify_write(std::int64_t width, std::int64_t depth);

/// Returns the cost of a table of constants behind a register: all zero if Yosys maps it to logic instead of block RAM.
Cost constant_table(std::int64_t width, std::int64_t depth, MemoryStyle style);

/// Returns how many DSP48E2 slices one signed product takes.
std::uint64_t product_slices(std::int64_t a_bits, std::int64_t b_bits, std::int64_t product_bits);

}  // namespace millrace::compiler::generators
