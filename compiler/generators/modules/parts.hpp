// Parts that modules have in common, and what they take. Private to compiler/generators.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "compiler/generators/mapping.hpp"
#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators {

/// AKIND, BKIND and WKIND.
enum OperandKind : std::int64_t { kUnsigned = 0, kSigned = 1, kBipolar = 2 };

/// $clog2: also the bits of a register that counts through n values and stays where n is 1.
inline std::int64_t clog2(std::int64_t n) {
  return n > 1 ? static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1))) : 0;
}

inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Bits of an operand as a signed number.
inline std::int64_t signed_operand_bits(std::int64_t bits, std::int64_t kind) {
  return bits + (kind == kSigned ? 0 : 1);
}

/// An mr_table: exact where it is a memory, terms "table…" where it is logic.
void add_table(Features& f, std::int64_t width, std::int64_t depth, std::int64_t style, bool loaded);

/// The condition under which mr_fifo, mr_mvu, mr_swu and mr_swu_par put a buffer into block RAM.
bool wants_block(std::int64_t width, std::int64_t depth);

/// A memory with one write port and one clocked read port: block RAM where `block`. Its output register is a
/// part of a block RAM, and separate from LUTRAM.
void add_memory(Features& f, std::int64_t width, std::int64_t depth, bool block);

/// An mr_width_adapter inside another module; nothing where both sides are alike. Of every `of` bits that
/// come in, `own` are no copies of others, as those of an extended sign are.
void add_width_adapter(Features& f, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own = 1, std::int64_t of = 1);

/// The products of `count` pairs of operands, by ABITS, AKIND, WBITS, WKIND and MUL.
void add_products(Features& f, const Values& v, std::int64_t count);

/// The lanes of a pool, which take `values` elements a beat.
void add_pool_lanes(Features& f, const Values& v, std::int64_t depth, std::int64_t counters,
                    std::int64_t values, const Cost& memory);

/// A port between the card's memory and a stream of elements: mr_ingress and mr_egress.
void add_host_port(Features& f, const Values& v, bool in);

/// A port between a stream of elements and words of a cable: mr_link_send and mr_link_receive.
struct LinkPort {
  std::int64_t bits, beat, unit, counters;
  explicit LinkPort(const Values& v)
      : bits(8 * v["BYTES"]),
        beat(v["LANES"] * v["ABITS"]),
        unit(std::min(beat & -beat, bits)),
        counters(clog2(v["BEATS"] + 1) + clog2(v["REFRESH"] + 1)) {}
};

/// The windows that mr_swu and mr_swu_par cut out of an image.
struct WindowGeometry {
  explicit WindowGeometry(const Values& v);
  std::int64_t h, w, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr;
  std::int64_t reach_h, reach_w;  // of a kernel over the image
  std::int64_t oh, ow;            // windows
};

/// Lines of `count` elements, for calibration: normally distributed where they are signed.
ConstantFile element_lines(std::string_view parameter, std::string_view file, std::int64_t lines,
                           std::int64_t count, std::int64_t bits, std::int64_t kind);

/// Biases of `rows` rows in PE lanes, for calibration.
ConstantFile bias_lines(const Values& v, std::int64_t rows);

}  // namespace millrace::compiler::generators
