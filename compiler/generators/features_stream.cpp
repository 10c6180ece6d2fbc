// Terms of the stream modules, windows and pooling: registers and adders as their sources have them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/generators/feature_builder.hpp"

namespace millrace::compiler::generators {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

bool wants_block(std::int64_t width, std::int64_t depth) {
  constexpr std::int64_t kLutramDepth = 64, kLutramBits = 4096;
  return depth > kLutramDepth && depth * width > kLutramBits;
}

void add_memory(Builder& b, std::int64_t width, std::int64_t depth, bool block) {
  b.exact(simple_dual_port(width, depth, block ? MemoryStyle::kBlock : MemoryStyle::kDistributed));
  if (!block) {
    b.ff("memory", width);
    // Words beyond one primitive: a multiplexer a bit, a write enable a primitive row.
    b.lut("memory", (ceil_div(depth, 64) - 1) * width);
  }
}

void describe_skid(const Values& v, Builder& b) {
  b.lut("one", 1);
  b.lut("width", v["WIDTH"]);
  b.ff("one", 1);
  b.ff("width", v["WIDTH"]);
}

void describe_fifo(const Values& v, Builder& b) {
  const std::int64_t depth = v["DEPTH"], width = v["WIDTH"];
  const bool block = v["MEMORY"] == 2 || (v["MEMORY"] == 0 && wants_block(width, depth));
  const bool whole = (depth & (depth - 1)) == 0;  // pointers wrap by themselves
  b.lut("one", 1);
  b.lut("pointer", clog2(depth));
  b.lut("wrap", whole ? 0 : clog2(depth));
  b.lut("count", clog2(depth + 1));
  b.ff("one", 1);
  b.ff("control", 2 * clog2(depth) + clog2(depth + 1));
  add_memory(b, width, depth, block);
}

void describe_load(const Values& v, Builder& b) {
  const std::int64_t words = ceil_div(v["WIDTH"], 64), own = words * v["LINES"];
  const std::int64_t count = clog2(own + v["REST"] + 1), word = words > 1 ? clog2(words) : 1;
  b.lut("one", 1);
  b.lut("counter", count);
  b.lut("word", words > 1 ? word : 0);
  // Whose words they are, by the count: no bit below the lowest that is set in the bound matters.
  b.lut("compare", count - std::countr_zero(static_cast<std::uint64_t>(own)));
  b.ff("one", 1);
  // Every word of a line of several shifts through the topmost.
  b.ff("register", count + word + 64 + (words > 1 ? words * 64 : v["WIDTH"]));
}

void describe_width_adapter(const Values& v, Builder& b) {
  const std::int64_t s = v["S_LANES"], m = v["M_LANES"];
  if (s == m) return;
  b.lut("up", m % s == 0 ? 1 : 0);
  b.lut("down", s % m == 0 ? 1 : 0);
  add_width_adapter(b, v["LANE"], s, m);
  b.ff("one", 1);
}

void add_width_adapter(Builder& b, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own, std::int64_t of) {
  // What both sides share counts as one lane: the numbers of lanes held are multiples of it.
  const std::int64_t shared = std::gcd(s_lanes, m_lanes);
  const std::int64_t lane = lane_bits * shared, s = s_lanes / shared, m = m_lanes / shared;
  if (s == m) return;
  const std::int64_t held = s_lanes + m_lanes - 1, held_bits = (s + m - 1) * lane;
  if (s == 1) {
    // A shift register: its bits come in by their clock enables.
    b.lut("count", clog2(m));
    b.ff("count", clog2(m));
    b.ff("data", m * lane);
  } else if (m == 1) {
    b.lut("count", clog2(s));
    b.lut("shift", s * lane);
    b.ff("count", clog2(s));
    b.ff("data", s * lane);
  } else {
    // A bit held comes from where it is, from M_LANES further up, or from a lane of a new beat: each of
    // S_LANES may come to M_LANES places.
    b.lut("any", clog2(held + 1));
    b.lut("held", held_bits);
    b.lut("place", s * m * lane * own / of);
    b.ff("count", clog2(held + 1));
    b.ff("data", held_bits);
  }
}

void describe_fork(const Values& v, Builder& b) {
  b.lut("readers", v["N"]);
  b.ff("readers", v["N"]);
}

void describe_join(const Values& v, Builder& b) {
  b.lut("streams", v["N"]);
}

void describe_pad(const Values& v, Builder& b) {
  const std::int64_t oh = v["TOP"] + v["H"] + v["BOTTOM"], ow = v["LEFT"] + v["W"] + v["RIGHT"];
  const std::int64_t counters = counter_bits(oh) + counter_bits(ow) + counter_bits(v["CF"]);
  b.lut("one", 1);
  b.lut("counter", counters);
  b.lut("data", v["SIMD"] * v["ABITS"]);
  b.ff("one", 1);
  b.ff("counter", counters);
  b.ff("data", v["SIMD"] * v["ABITS"]);
}

void describe_crop(const Values& v, Builder& b) {
  const std::int64_t counters = counter_bits(v["H"]) + counter_bits(v["W"]) + counter_bits(v["CF"]);
  b.lut("one", 1);
  b.lut("counter", counters);
  b.ff("one", 1);
  b.ff("counter", counters);
  b.ff("data", v["WIDTH"]);
}

void describe_concat(const Values& v, Builder& b) {
  b.lut("one", 1);
  b.lut("counter", clog2(v["CF0"] + v["CF1"]));
  b.lut("data", v["WIDTH"]);
  b.ff("one", 1);
  b.ff("counter", clog2(v["CF0"] + v["CF1"]));
  b.ff("data", v["WIDTH"]);
}

void describe_swu(const Values& v, Builder& b) {
  const std::int64_t h = v["H"], w = v["W"], cf = v["CF"], kh = v["KH"], kw = v["KW"];
  const std::int64_t ph = h + v["PT"] + v["PB"], pw = w + v["PL"] + v["PR"];
  const std::int64_t oh = (ph - (kh - 1) * v["DH"] - 1) / v["SH"] + 1;
  const std::int64_t ow = (pw - (kw - 1) * v["DW"] - 1) / v["SW"] + 1;
  const std::int64_t words = v["ROWS"] * w * cf, lanes = v["SIMD"] * v["ABITS"];
  const std::int64_t address = clog2(words);
  const std::int64_t row = clog2(ph + v["SH"] + v["ROWS"] + 1) + 2, column = clog2(pw + v["SW"] + 1) + 2;
  const std::int64_t offset = clog2((pw + v["SW"] + v["DW"]) * cf + 1) + 2;
  const std::int64_t counters =
      counter_bits(cf) * 2 + counter_bits(kh) + counter_bits(kw) + counter_bits(oh) + counter_bits(ow);
  const bool padded = v["PT"] + v["PB"] + v["PL"] + v["PR"] > 0;
  b.lut("one", 1);
  b.lut("address", address);
  b.lut("row", row);
  b.lut("column", column);
  b.lut("offset", offset);
  b.lut("counter", counters);
  b.lut("padding", padded ? row + column : 0);
  b.lut("padded", padded ? lanes : 0);
  b.ff("one", 1);
  b.ff("control", 4 * address + 5 * row + 3 * column + 2 * offset + counters);
  b.ff("data", lanes);
  add_memory(b, lanes, words, wants_block(lanes, words));
}

void describe_swu_par(const Values& v, Builder& b) {
  const std::int64_t h = v["H"], w = v["W"], px = v["PX"], kh = v["KH"], kw = v["KW"], sw = v["SW"];
  const std::int64_t pt = v["PT"], pl = v["PL"], pb = v["PB"], pr = v["PR"], sh = v["SH"];
  const std::int64_t reach_h = (kh - 1) * v["DH"] + 1, reach_w = (kw - 1) * v["DW"] + 1;
  const std::int64_t m = px > sw ? px / sw : 1;
  const std::int64_t oh = (h + pt + pb - reach_h) / sh + 1, ow = (w + pl + pr - reach_w) / sw + 1;
  const std::int64_t g = ow / m, step = sw > px ? sw / px : 1, f = ((m - 1) * sw + reach_w - 1 - pl) / px;
  const std::int64_t blocks = w / px, left = ceil_div(pl, px);
  const std::int64_t right = std::max<std::int64_t>((g - 1) * step + f + 1 - blocks, 0);
  const std::int64_t before = std::max(left, right), above = std::max(pt, pb);
  const std::int64_t block = px * v["C"] * v["ABITS"], older = f + left;
  const std::int64_t scan = counter_bits(above + h) + counter_bits(before + blocks);
  const std::int64_t position = clog2(2 * h + pt + pb + sh + 1) + clog2(2 * blocks + before + f + step + 1);
  const std::int64_t left_over = clog2(oh + 1) + clog2(g + 1);
  const std::int64_t lines = (reach_h - 1) * block;
  b.lut("one", 1);
  b.lut("scan", scan);
  b.lut("position", position + left_over);
  b.lut("padded", before + above > 0 ? block : 0);
  b.lut("above", before > 0 ? lines : 0);
  b.lut("lines", lines);
  b.ff("one", 1);
  b.ff("control", scan + position + left_over + (lines > 0 ? counter_bits(blocks) : 0));
  b.ff("block", block);
  b.ff("window", kh * (older + 1) * block);
  if (lines > 0) add_memory(b, lines, blocks, wants_block(lines, blocks));
}

namespace {

/// `values`: elements a lane takes in a beat.
void describe_pool_lanes(const Values& v, Builder& b, std::int64_t depth, std::int64_t counters,
                         std::int64_t values, const Cost& memory) {
  const std::int64_t simd = v["SIMD"];
  const bool sum = v["OP"] == 1;
  b.exact(memory);
  b.lut("one", 1);
  b.lut("counter", counters);
  b.lut("memory", (ceil_div(depth, 64) - 1) * simd * v["OBITS"]);
  b.lut("largest", sum ? 0 : values * simd * v["OBITS"]);
  b.lut("sum", sum ? values * simd * v["OBITS"] : 0);
  b.ff("one", 1);
  b.ff("counter", counters);
  b.ff("data", simd * v["OBITS"]);
}

}  // namespace

void describe_pool(const Values& v, Builder& b) {
  const std::int64_t depth = std::max<std::int64_t>(v["W"] / v["KW"] * v["CF"], 1);
  const std::int64_t counters = counter_bits(v["CF"]) + counter_bits(v["W"] / v["PX"]) +
                                counter_bits(v["H"]) + counter_bits(v["KW"] / v["PX"]) +
                                counter_bits(v["KH"]) + counter_bits(depth);
  describe_pool_lanes(v, b, depth, counters, v["PX"], read_modify_write(v["SIMD"] * v["OBITS"], depth));
}

void describe_reduce(const Values& v, Builder& b) {
  const std::int64_t depth = std::max<std::int64_t>(v["CF"], 2);
  describe_pool_lanes(v, b, depth, counter_bits(v["CF"]) + counter_bits(v["TAPS"]), 1,
                      simple_dual_port(v["SIMD"] * v["OBITS"], depth, MemoryStyle::kDistributed));
}

}  // namespace millrace::compiler::generators
