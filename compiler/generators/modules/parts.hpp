// Cost models of parts that several hardware modules contain. Private to compiler/generators.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "compiler/generators/mapping.hpp"
#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators {

/// Values of the parameters AKIND, BKIND and WKIND.
enum OperandKind : std::int64_t { kUnsigned = 0, kSigned = 1, kBipolar = 2 };

/// Returns SystemVerilog's $clog2(n): the bits of a register that counts through n values, and 0 if n is 1.
inline std::int64_t clog2(std::int64_t n) {
  return n > 1 ? static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1))) : 0;
}

/// Adds the cost of an mr_table: an exact number of primitives for a table in memory, or terms named "table…", whose
/// coefficients are calibrated, for a table in logic.
void add_table(Features& f, std::int64_t width, std::int64_t depth, std::int64_t style, bool loaded);

/// Whether mr_fifo, mr_mvu, mr_swu and mr_swu_par put a buffer of this size into block RAM.
bool wants_block(std::int64_t width, std::int64_t depth);

/// Adds the cost of a memory with one write port and one clocked read port: block RAM if `block`, otherwise LUTRAM. A
/// block RAM contains its output register. LUTRAM needs separate flip-flops.
void add_memory(Features& f, std::int64_t width, std::int64_t depth, bool block);

/// Adds the cost of an mr_width_adapter inside another module: nothing if both sides have the same number of lanes. Of
/// every `of` input bits, `own` bits are independent, and all other bits repeat a sign.
void add_width_adapter(Features& f, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own = 1, std::int64_t of = 1);

/// Returns a file for calibration whose lines have `count` elements: normally distributed if signed, otherwise uniform.
ConstantFile element_lines(std::string_view parameter, std::string_view file, std::int64_t lines,
                           std::int64_t count, std::int64_t bits, std::int64_t kind);

}  // namespace millrace::compiler::generators
