// Parts that modules have in common, and their costs. Private to compiler/generators.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "compiler/generators/mapping.hpp"
#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators {

/// AKIND, BKIND and WKIND.
enum OperandKind : std::int64_t { kUnsigned = 0, kSigned = 1, kBipolar = 2 };

/// $clog2: also the bits of a register that counts through n values and stays where n is 1.
inline std::int64_t clog2(std::int64_t n) {
  return n > 1 ? static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1))) : 0;
}

/// An mr_table: exact where it is a memory, terms "table…" where it is logic.
void add_table(Features& f, std::int64_t width, std::int64_t depth, std::int64_t style, bool loaded);

/// The condition under which mr_fifo, mr_mvu, mr_swu and mr_swu_par put a buffer into block RAM.
bool wants_block(std::int64_t width, std::int64_t depth);

/// A memory with one write port and one clocked read port: block RAM where `block`. Its output register is a
/// part of a block RAM, and separate from LUTRAM.
void add_memory(Features& f, std::int64_t width, std::int64_t depth, bool block);

/// An mr_width_adapter inside another module; nothing if both sides are alike. Of every `of` bits that come in,
/// `own` have values of their own; the others repeat a sign.
void add_width_adapter(Features& f, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own = 1, std::int64_t of = 1);

/// Lines of `count` elements, for calibration: normally distributed where they are signed.
ConstantFile element_lines(std::string_view parameter, std::string_view file, std::int64_t lines,
                           std::int64_t count, std::int64_t bits, std::int64_t kind);

}  // namespace millrace::compiler::generators
