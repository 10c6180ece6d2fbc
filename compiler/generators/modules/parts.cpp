#include "compiler/generators/modules/parts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace millrace::compiler::generators {
namespace {

struct BlockShape {
  std::int64_t width, depth;
};
constexpr std::array<BlockShape, 6> kHalf = {
    {{36, 512}, {18, 1024}, {9, 2048}, {4, 4096}, {2, 8192}, {1, 16384}}};
constexpr std::array<BlockShape, 7> kFull = {
    {{72, 512}, {36, 1024}, {18, 2048}, {9, 4096}, {4, 8192}, {2, 16384}, {1, 32768}}};

// Prices in Yosys' memory_libmap. A RAMB18 costs 129 and a RAMB36 257. A LUTRAM primitive costs 16 times the used share
// of its width. A table in logic costs a 64th of its bits, rounded down; a table in block RAM costs 2 more than its
// primitives. Each bit of an address multiplexer's input costs about 0.4.
constexpr std::int64_t kHalfPrice = 129, kFullPrice = 257, kLogicBits = 64, kTablePrice = 2;
constexpr double kLutramPrice = 16, kSelectPrice = 0.4;

struct Mapping {
  double price = 0;
  Cost cost;
};

double select_price(std::int64_t width, std::int64_t copies) {
  return kSelectPrice * static_cast<double>((copies - 1) * width);
}

/// Returns the cheapest mapping to block RAM. A memory deeper than one block RAM needs several copies, whose columns
/// are packed together. The copies of a `written` memory are written one by one, so they are packed in bytes of 9 bits.
Mapping block_mapping(std::int64_t width, std::int64_t depth, bool written) {
  Mapping best;
  const auto consider = [&](const BlockShape& shape, bool full) {
    const std::int64_t copies = ceil_div(depth, shape.depth);
    std::int64_t blocks = ceil_div(width * copies, shape.width);
    if (written) {
      blocks = shape.width >= 9 ? ceil_div(ceil_div(width, 9) * copies, shape.width / 9)
                                : ceil_div(width, shape.width) * copies;
    }
    const double price =
        static_cast<double>(blocks * (full ? kFullPrice : kHalfPrice)) + select_price(width, copies);
    if (best.price != 0 && price >= best.price) return;
    best.price = price;
    best.cost = {};
    (full ? best.cost.ramb36 : best.cost.ramb18) = static_cast<std::uint64_t>(blocks);
  };
  for (const BlockShape& shape : kFull) consider(shape, true);
  for (const BlockShape& shape : kHalf) consider(shape, false);
  return best;
}

/// Returns the cheapest mapping to LUTRAM: RAM32M16 (32 words of 14 bits) or RAM64M8 (64 words of 7), 8 LUTs each.
Mapping distributed_mapping(std::int64_t width, std::int64_t depth) {
  const auto mapping = [&](std::int64_t bits, std::int64_t words) {
    const std::int64_t copies = ceil_div(depth, words);
    Mapping result;
    result.price = static_cast<double>(copies * width) * kLutramPrice / static_cast<double>(bits) +
                   select_price(width, copies);
    result.cost.lutram = static_cast<std::uint64_t>(copies * ceil_div(width, bits) * 8);
    result.cost.lut = result.cost.lutram;
    return result;
  };
  const Mapping shallow = mapping(14, 32), deep = mapping(7, 64);
  return shallow.price < deep.price - 1e-9 ? shallow : deep;
}

}  // namespace

Cost simple_dual_port(std::int64_t width, std::int64_t depth, MemoryStyle style) {
  const Mapping distributed = distributed_mapping(width, depth);
  if (style == MemoryStyle::kDistributed) return distributed.cost;
  const Mapping block = block_mapping(width, depth, true);
  return style == MemoryStyle::kBlock || block.price <= distributed.price ? block.cost : distributed.cost;
}

Cost read_modify_write(std::int64_t width, std::int64_t depth) {
  // With one port for reading and writing, RAM32M16 stores 32 words of 16 bits, and RAMnX1S stores 64, 128 or 256 bits.
  constexpr double kSelect = 0.75;
  struct Shape {
    std::int64_t words, bits;
  };
  double best = 0;
  Cost cost;
  for (const Shape& shape : {Shape{256, 2}, Shape{128, 4}, Shape{64, 8}, Shape{32, 16}}) {
    const std::int64_t copies = ceil_div(depth, shape.words);
    const double price =
        static_cast<double>(copies * width) * kLutramPrice / static_cast<double>(shape.bits) +
        kSelect * static_cast<double>((copies - 1) * width);
    if (best != 0 && price >= best) continue;
    best = price;
    const std::int64_t luts = shape.words == 32 ? ceil_div(width, 16) * 8 : width * shape.words / 64;
    cost.lutram = cost.lut = static_cast<std::uint64_t>(copies * luts);
  }
  return cost;
}

Cost constant_table(std::int64_t width, std::int64_t depth, MemoryStyle style) {
  if (style == MemoryStyle::kDistributed || depth == 1) return {};
  const Mapping block = block_mapping(width, depth, false);
  const bool logic = style == MemoryStyle::kAuto &&
                     static_cast<double>(width * depth / kLogicBits) <= block.price + kTablePrice;
  return logic ? Cost{} : block.cost;
}

namespace {

std::uint64_t slices_as_they_stand(std::int64_t a, std::int64_t b, std::int64_t product_bits) {
  if (a < 2 || b < 2 || product_bits < 9) return 0;
  if (a > 27) {
    const std::int64_t pieces = (a - 27 + 18 - 1 - 1) / 17, last = a - pieces * 17;
    return static_cast<std::uint64_t>(pieces) * slices_as_they_stand(18, b, std::min(product_bits, b + 18)) +
           slices_as_they_stand(last, b, b + last);
  }
  if (b > 18) {
    const std::int64_t pieces = (b - 18 + 18 - 1 - 1) / 17, last = b - pieces * 17;
    return static_cast<std::uint64_t>(pieces) * slices_as_they_stand(a, 18, std::min(product_bits, a + 18)) +
           slices_as_they_stand(a, last, a + last);
  }
  return 1;
}

}  // namespace

std::uint64_t product_slices(std::int64_t a_bits, std::int64_t b_bits, std::int64_t product_bits) {
  // The rules of Yosys' mul2dsp: products of at most 8 bits and operands of one bit stay in LUTs. If the longer operand
  // exceeds 27 bits, it is cut into pieces of 17 bits. Then a shorter operand of more than 18 bits is cut.
  return slices_as_they_stand(std::max(a_bits, b_bits), std::min(a_bits, b_bits), product_bits);
}

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
  if (loaded && depth == 1) {  // a single word is stored in a register
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
  // A table with `depth` lines has at most 2^depth different columns, and equal columns share their logic. Estimate the
  // number of different columns.
  const double most = std::pow(2.0, static_cast<double>(std::min<std::int64_t>(depth, 60)));
  const double columns = most * -std::expm1(static_cast<double>(width) * std::log1p(-1.0 / most));
  f.add_ff("table", logic ? columns : 0.0);
  if (!logic || depth == 2) return;
  std::int64_t below = 0;
  for (const Class& c : kClasses) {
    // The LUTs of a table between two depth classes are interpolated. `share` is the fraction of this class that the
    // table's lines fill.
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
  // A memory deeper than one primitive has a multiplexer for each bit and a write enable for each row of primitives.
  f.add_lut("memory", (ceil_div(depth, 64) - 1) * width);
}

void add_width_adapter(Features& f, std::int64_t lane_bits, std::int64_t s_lanes, std::int64_t m_lanes,
                       std::int64_t own, std::int64_t of) {
  // Lanes are stored in groups of `shared` lanes (the greatest common divisor of both lane counts). In the code below,
  // such a group counts as one lane.
  const std::int64_t shared = std::gcd(s_lanes, m_lanes);
  const std::int64_t lane = lane_bits * shared, s = s_lanes / shared, m = m_lanes / shared;
  if (s == m) return;
  const std::int64_t held = s_lanes + m_lanes - 1, held_bits = (s + m - 1) * lane;
  if (s == 1) {
    // With one input lane, the width adapter is a shift register, whose bits are written through their clock
    // enables.
    f.add_both("count", clog2(m));
    f.add_ff("data", m * lane);
  } else if (m == 1) {
    f.add_lut("count", clog2(s));
    f.add_lut("shift", s * lane);
    f.add_ff("count", clog2(s));
    f.add_ff("data", s * lane);
  } else {
    // A stored bit comes from its own register, from the register M_LANES higher, or from a lane of a new beat. Each of
    // the S_LANES lanes may go to M_LANES positions.
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
