#include "compiler/generators/modules/parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace millrace::compiler::generators {

void add_table(Features& f, std::int64_t width, std::int64_t depth, std::int64_t style, bool loaded) {
  struct Class {
    std::int64_t depth;
    const char* name;
  };
  static constexpr std::array<Class, 5> kClasses = {
      {{64, "table_64"}, {128, "table_128"}, {256, "table_256"}, {512, "table_512"}, {1024, "table_1024"}}};
  f.add_both("table_load", loaded ? std::max<std::int64_t>(clog2(depth), 1) + 1 : 0);
  const MemoryStyle wanted = style == 1   ? MemoryStyle::kBlock
                             : style == 2 ? MemoryStyle::kDistributed
                                          : MemoryStyle::kAuto;
  if (loaded && depth == 1) {  // one word is no memory but a register
    f.add_ff("table", 2 * width);
    return;
  }
  if (loaded) {
    const Cost memory = simple_dual_port(width, depth, wanted);
    f.exact += memory;
    f.add_ff("table", memory.lutram > 0 ? width : 0);
    return;
  }
  const Cost memory = constant_table(width, depth, wanted);
  f.exact += memory;
  const bool logic = memory == Cost{} && depth > 1;
  // Of shallow tables, columns repeat: there are only 2^depth different ones.
  const double most = std::pow(2.0, static_cast<double>(std::min<std::int64_t>(depth, 60)));
  const double columns = most * -std::expm1(static_cast<double>(width) * std::log1p(-1.0 / most));
  f.add_ff("table", logic ? columns : 0.0);
  if (!logic || depth == 2) return;
  std::int64_t below = 0;
  for (const Class& c : kClasses) {
    // Between two classes by the share of words above the lower one.
    if (depth > below) {
      const double share =
          static_cast<double>(std::min(depth, c.depth) - below) / static_cast<double>(c.depth - below);
      f.add_lut(c.name, below == 0 ? columns : columns * share);
    }
    below = c.depth;
  }
  if (depth > below) f.add_lut("table_deep", columns * static_cast<double>(depth - below) / 1024.0);
}

bool wants_block(std::int64_t width, std::int64_t depth) {
  constexpr std::int64_t kLutramDepth = 64, kLutramBits = 4096;
  return depth > kLutramDepth && depth * width > kLutramBits;
}

void add_memory(Features& f, std::int64_t width, std::int64_t depth, bool block) {
  f.exact += simple_dual_port(width, depth, block ? MemoryStyle::kBlock : MemoryStyle::kDistributed);
  if (block) return;
  f.add_ff("memory", width);
  // Words beyond one primitive: a multiplexer a bit, a write enable a primitive row.
  f.add_lut("memory", (ceil_div(depth, 64) - 1) * width);
}

void add_width_adapter(Features& f, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own, std::int64_t of) {
  // The lanes that both sides share count as one: the numbers of lanes held are multiples of it.
  const std::int64_t shared = std::gcd(s_lanes, m_lanes);
  const std::int64_t lane = lane_bits * shared, s = s_lanes / shared, m = m_lanes / shared;
  if (s == m) return;
  const std::int64_t held = s_lanes + m_lanes - 1, held_bits = (s + m - 1) * lane;
  if (s == 1) {
    // A shift register: its bits come in by their clock enables.
    f.add_both("count", clog2(m));
    f.add_ff("data", m * lane);
  } else if (m == 1) {
    f.add_lut("count", clog2(s));
    f.add_lut("shift", s * lane);
    f.add_ff("count", clog2(s));
    f.add_ff("data", s * lane);
  } else {
    // A bit held comes from its own register, from M_LANES further up, or from a lane of a new beat: each of
    // S_LANES may come to M_LANES places.
    f.add_lut("any", clog2(held + 1));
    f.add_lut("held", held_bits);
    f.add_lut("place", s * m * lane * own / of);
    f.add_ff("count", clog2(held + 1));
    f.add_ff("data", held_bits);
  }
}

ConstantFile element_lines(std::string_view parameter, std::string_view file, std::int64_t lines,
                           std::int64_t count, std::int64_t bits, std::int64_t kind) {
  const ConstantField element{bits, kind == kSigned ? bits : 0, 0, (std::int64_t{1} << bits) - 1};
  return {parameter, file, {}, lines, std::vector<ConstantField>(static_cast<std::size_t>(count), element)};
}

}  // namespace millrace::compiler::generators
