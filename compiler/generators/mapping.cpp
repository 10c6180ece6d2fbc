#include "compiler/generators/mapping.hpp"

#include <algorithm>
#include <array>

namespace millrace::compiler::generators {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

struct BlockShape {
  std::int64_t width, depth;
};
constexpr std::array<BlockShape, 6> kHalf = {
    {{36, 512}, {18, 1024}, {9, 2048}, {4, 4096}, {2, 8192}, {1, 16384}}};
constexpr std::array<BlockShape, 7> kFull = {
    {{72, 512}, {36, 1024}, {18, 2048}, {9, 4096}, {4, 8192}, {2, 16384}, {1, 32768}}};

// memory_libmap's own prices: a RAMB18 129, a RAMB36 257; logic a 64th of a table's bits.
constexpr std::int64_t kHalfPrice = 129, kFullPrice = 257, kLogicBitsPerPrice = 64;

struct BlockMapping {
  std::int64_t price = 0;
  Cost cost;
};

BlockMapping block_mapping(std::int64_t width, std::int64_t depth) {
  BlockMapping best;
  const auto consider = [&](std::int64_t blocks, bool full) {
    const std::int64_t price = blocks * (full ? kFullPrice : kHalfPrice);
    if (best.price != 0 && price >= best.price) return;
    best.price = price;
    best.cost = {};
    (full ? best.cost.ramb36 : best.cost.ramb18) = static_cast<std::uint64_t>(blocks);
  };
  for (const BlockShape& shape : kHalf) {
    consider(ceil_div(width, shape.width) * ceil_div(depth, shape.depth), false);
  }
  for (const BlockShape& shape : kFull) {
    consider(ceil_div(width, shape.width) * ceil_div(depth, shape.depth), true);
  }
  return best;
}

// RAM32M16 gives 14 bits of 32 words, RAM64M8 7 bits of 64 words, both in 8 LUTs.
Cost distributed_mapping(std::int64_t width, std::int64_t depth) {
  const std::int64_t shallow = ceil_div(depth, 32) * ceil_div(width, 14);
  const std::int64_t deep = ceil_div(depth, 64) * ceil_div(width, 7);
  Cost cost;
  cost.lutram = static_cast<std::uint64_t>(std::min(shallow, deep) * 8);
  cost.lut = cost.lutram;
  return cost;
}

}  // namespace

Cost simple_dual_port(std::int64_t width, std::int64_t depth, MemoryStyle style) {
  if (style == MemoryStyle::kBlock) return block_mapping(width, depth).cost;
  return distributed_mapping(width, depth);
}

Cost read_modify_write(std::int64_t width, std::int64_t depth) {
  return distributed_mapping(width, depth);
}

Cost constant_table(std::int64_t width, std::int64_t depth, MemoryStyle style) {
  if (style == MemoryStyle::kDistributed || depth == 1) return {};
  const BlockMapping block = block_mapping(width, depth);
  if (style == MemoryStyle::kAuto && width * depth / kLogicBitsPerPrice <= block.price) return {};
  return block.cost;
}

std::uint64_t product_slices(std::int64_t a_bits, std::int64_t b_bits, std::int64_t product_bits) {
  // mul2dsp: products of at most 8 bits and one-bit operands stay in LUTs; the longer operand is cut into
  // pieces of 17 bits where it exceeds 27, then the shorter one where it exceeds 18.
  const std::int64_t a = std::max(a_bits, b_bits), b = std::min(a_bits, b_bits);
  if (b < 2 || product_bits < 9) return 0;
  if (a > 27) {
    const std::int64_t pieces = (a - 27 + 18 - 1 - 1) / 17;
    const std::int64_t last = a - pieces * 17;
    return static_cast<std::uint64_t>(pieces) * product_slices(18, b, std::min(product_bits, b + 18)) +
           product_slices(last, b, b + last);
  }
  if (b > 18) {
    const std::int64_t pieces = (b - 18 + 18 - 1 - 1) / 17;
    const std::int64_t last = b - pieces * 17;
    return static_cast<std::uint64_t>(pieces) * product_slices(a, 18, std::min(product_bits, a + 18)) +
           product_slices(a, last, a + last);
  }
  return 1;
}

}  // namespace millrace::compiler::generators
