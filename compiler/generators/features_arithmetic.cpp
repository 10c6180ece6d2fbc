// Terms of the modules that multiply, compare and look up.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/generators/feature_builder.hpp"

namespace millrace::compiler::generators {
namespace {

enum Kind : std::int64_t { kUnsigned = 0, kSigned = 1, kBipolar = 2 };

/// Bits of an operand as a signed number.
std::int64_t signed_bits(std::int64_t bits, std::int64_t kind) {
  return bits + (kind == kSigned ? 0 : 1);
}

/// A tree that adds `leaves` values pairwise, level by level, every level registered; a value without a
/// partner is registered too. Widths grow by `grow` bits a level.
struct Tree {
  double adder_bits = 0;     // of all adders' results
  double register_bits = 0;  // of all levels, the leaves' own registers included
};

Tree tree(std::int64_t leaves, std::int64_t leaf_bits, std::int64_t grow, std::int64_t levels) {
  Tree result;
  result.register_bits = static_cast<double>(leaves * leaf_bits);
  std::int64_t nodes = leaves, bits = leaf_bits;
  for (std::int64_t level = 0; level < levels; ++level) {
    bits += grow;
    const std::int64_t adders = nodes / 2, alone = nodes % 2;
    result.adder_bits += static_cast<double>(adders * bits);
    result.register_bits += static_cast<double>(adders * bits + alone * (bits - grow));
    nodes = adders + alone;
  }
  return result;
}

/// Products in LUTs of `count` pairs: rows of a Booth multiplier and the adders below them.
void add_soft_products(Builder& b, std::int64_t count, std::int64_t ax, std::int64_t wx) {
  const std::int64_t digits = (wx + 1) / 2;
  b.lut("booth_row", count * digits * (ax + 1));
  b.lut("booth_sum", count * ((digits - 1) * (ax + 5) + ax + 3));
}

void add_products(Builder& b, const Values& v, std::int64_t count) {
  const std::int64_t ax = signed_bits(v["ABITS"], v["AKIND"]), wx = signed_bits(v["WBITS"], v["WKIND"]);
  if (v["WKIND"] == kBipolar || v["AKIND"] == kBipolar) {
    b.lut("sign", count * (ax + wx));
  } else if (v["MUL"] == 0) {
    add_soft_products(b, count, ax, wx);
  } else {
    const std::uint64_t slices = product_slices(ax, wx, ax + wx);
    b.slices(slices, count);
    b.lut("small_product", slices == 0 ? count * ax * wx : 0);
  }
}

/// Constants that are loaded say nothing beforehand: every shift is possible, and no bit of a line is known.
/// What is fitted to such rows has names of its own, so that neither kind moves the other's figures.
void describe_loaded_requant(const Values& v, Builder& b) {
  const std::int64_t pe = v["PE"], nf = v["UNIFORM"] != 0 ? 1 : v["CHANNELS"] / pe;
  const std::int64_t acc = v["ACCBITS"], mbits = v["MBITS"], offbits = v["OFFBITS"], obits = v["OBITS"];
  const bool even = v["ROUND_HALF_EVEN"] != 0;
  const std::int64_t shift_bits = v["SHIFT"] < 0 ? v["SBITS"] : 0, product = acc + mbits;
  const std::int64_t z = offbits == 0 ? product : std::max(product, offbits) + 1;
  const std::int64_t quotient = std::max<std::int64_t>(z + (even ? 1 : 0), obits + 2);
  const std::int64_t levels =
      std::min(shift_bits, clog2(quotient));  // of the shifter; longer shifts leave the sign
  const std::int64_t stages = 2 + (mbits > 0 ? 1 : 0) + (offbits > 0 ? 1 : 0) + (even ? 1 : 0);
  add_table(b, pe * (mbits + offbits + shift_bits), nf, 0, true);
  b.lut("loaded_one", 1);
  b.lut("loaded_counter", counter_bits(nf));
  b.lut("loaded_shift", pe * quotient * levels);
  b.lut("loaded_clamp", pe * quotient);
  b.lut("loaded_lane", pe);
  b.lut("loaded_sum", offbits > 0 ? pe * z : 0);
  b.lut("loaded_round", even ? pe * z : 0);
  b.ff("loaded_register", counter_bits(nf) + stages + pe * (acc + obits));
  if (mbits > 0) {
    const std::uint64_t slices = product_slices(acc, mbits, product);
    b.slices(slices, pe);
    b.lut("long_product", slices > 1 ? pe * product : 0);
    b.ff("loaded_register", pe * (product + offbits + shift_bits));
  }
  if (offbits > 0) b.ff("loaded_register", pe * (z + shift_bits));
  if (even) b.ff("loaded_register", pe * (z + 1 + shift_bits));
}

}  // namespace

void add_table(Builder& b, std::int64_t width, std::int64_t depth, std::int64_t style, bool loaded) {
  struct Class {
    std::int64_t depth;
    const char* name;
  };
  static constexpr std::array<Class, 5> kClasses = {
      {{64, "table_64"}, {128, "table_128"}, {256, "table_256"}, {512, "table_512"}, {1024, "table_1024"}}};
  const std::int64_t load = loaded ? std::max<std::int64_t>(clog2(depth), 1) + 1 : 0;
  b.lut("table_load", load);
  b.ff("table_load", load);
  const MemoryStyle wanted = style == 1   ? MemoryStyle::kBlock
                             : style == 2 ? MemoryStyle::kDistributed
                                          : MemoryStyle::kAuto;
  if (loaded && depth == 1) {  // one word is no memory but a register
    b.ff("table", 2 * width);
    return;
  }
  if (loaded) {
    const Cost memory = simple_dual_port(width, depth, wanted);
    b.exact(memory);
    b.ff("table", memory.lutram > 0 ? width : 0);
    return;
  }
  const Cost memory = constant_table(width, depth, wanted);
  b.exact(memory);
  const bool logic = memory == Cost{} && depth > 1;
  // Of shallow tables, columns repeat: there are only 2^depth different ones.
  const double most = std::pow(2.0, static_cast<double>(std::min<std::int64_t>(depth, 60)));
  const double columns = most * -std::expm1(static_cast<double>(width) * std::log1p(-1.0 / most));
  b.ff("table", logic ? columns : 0.0);
  if (!logic || depth == 2) return;
  std::int64_t below = 0;
  for (const Class& c : kClasses) {
    // Between two classes by the share of words above the lower one.
    if (depth > below) {
      const double share =
          static_cast<double>(std::min(depth, c.depth) - below) / static_cast<double>(c.depth - below);
      b.lut(c.name, below == 0 ? columns : columns * share);
    }
    below = c.depth;
  }
  if (depth > below) b.lut("table_deep", columns * static_cast<double>(depth - below) / 1024.0);
}

void describe_table(const Values& v, Builder& b) {
  add_table(b, v["WIDTH"], v["DEPTH"], v["STYLE"], v["LOADED"] != 0);
}

/// A vector's inputs, of `width` bits a beat: `held` of them where outputs beyond the first few read them
/// again.
void add_input_buffer(Builder& b, std::int64_t width, std::int64_t held, bool buffered) {
  const std::int64_t pointers = buffered ? 3 * clog2(held) + 2 * (clog2(held + 1) + 1) : 0;
  b.lut("pointer", pointers);
  b.ff("pointer", pointers);
  if (buffered) {
    add_memory(b, width, held, held > 64 && held * width > 4096);
  } else {
    b.ff("memory", width);
  }
}

void describe_mvu(const Values& v, Builder& b) {
  const std::int64_t pe = v["PE"], simd = v["SIMD"], nf = v["MH"] / pe, sf = v["MW"] / simd;
  const std::int64_t acc = v["ACCBITS"], levels = clog2(simd), stages = levels + 2;
  const std::int64_t input = simd * v["ABITS"];
  const std::int64_t ax = signed_bits(v["ABITS"], v["AKIND"]), wx = signed_bits(v["WBITS"], v["WKIND"]);
  const std::int64_t counters = counter_bits(sf) + counter_bits(nf) + counter_bits(sf * nf);
  const bool bias = v["BIAS"] != 0, buffered = nf > 1;

  b.lut("one", 1);
  b.lut("counter", counters);
  b.ff("counter", counters);
  b.ff("one", 1);
  b.ff("flags", stages * (sf > 1 ? 3 : 1));
  add_table(b, pe * simd * v["WBITS"], sf * nf, v["WSTYLE"], v["LOADED"] != 0);

  add_input_buffer(b, input, v["IBUF"], buffered);

  const std::int64_t pairs = v["MUL"] == 2 ? pe / 2 : 0, plain = pe - 2 * pairs;
  std::int64_t sum_bits = 0;
  if (plain > 0) {
    const bool count = v["AKIND"] == kBipolar && v["WKIND"] == kBipolar;
    const Tree adders = tree(simd, count ? 1 : ax + wx, 1, levels);
    b.lut("tree", static_cast<double>(plain) * adders.adder_bits);
    b.ff("tree", static_cast<double>(plain) * adders.register_bits);
    if (count) {
      b.lut("sign", plain * (simd + levels + 1));
    } else {
      add_products(b, v, plain * simd);
    }
    sum_bits = ax + wx + levels;
  }
  if (pairs > 0) {
    // Up to two levels add both fields packed; the levels above have two adders and a carry each.
    const std::int64_t packed_levels = std::min<std::int64_t>(levels, 2);
    const std::int64_t product = 27 + v["ABITS"] + (v["AKIND"] == kSigned ? 0 : 1);
    const Tree packed = tree(simd, product, 0, packed_levels);
    const std::int64_t groups = (simd + (std::int64_t{1} << packed_levels) - 1) >> packed_levels;
    const Tree split = tree(groups, 2 * 18 + 1, 2, levels - packed_levels);
    const double groups_own = static_cast<double>(groups * (2 * 18 + 1));
    b.lut("pair_tree", static_cast<double>(pairs) * (packed.adder_bits + split.adder_bits));
    b.ff("pair_tree", static_cast<double>(pairs) * (packed.register_bits + split.register_bits - groups_own));
    b.slices(product_slices(27, 9, 36), pairs * simd);
    sum_bits = 18 + levels;
  }
  b.lut("accumulate", sf > 1 ? pe * acc : 0);
  b.lut("add_bias", sf == 1 && bias ? pe * acc : 0);
  b.ff("accumulate", sf > 1 || bias ? pe * acc : pe * std::min(acc, sum_bits));
  b.lut("bias", bias ? counter_bits(nf) : 0);
  b.ff("bias", bias ? counter_bits(nf) : 0);
  if (bias) add_table(b, pe * acc, nf, 0, v["LOADED"] != 0);
}

void describe_mvu_streamed(const Values& v, Builder& b) {
  const std::int64_t pe = v["PE"], simd = v["SIMD"], nf = v["MH"] / pe, sf = v["MW"] / simd;
  const std::int64_t acc = v["ACCBITS"], levels = clog2(simd), input = simd * v["ABITS"];
  const std::int64_t ax = signed_bits(v["ABITS"], v["AKIND"]), wx = signed_bits(v["WBITS"], v["WKIND"]);
  const std::int64_t counters = counter_bits(sf) + counter_bits(nf);
  const bool buffered = nf > 1, count = v["AKIND"] == kBipolar && v["WKIND"] == kBipolar;
  b.lut("one", 1);
  b.ff("one", 1);
  b.lut("counter", counters);
  b.ff("counter", counters);
  b.ff("flags", (levels + 2) * (sf > 1 ? 3 : 1));
  b.ff("line", pe * simd * v["WBITS"]);
  add_input_buffer(b, input, v["IBUF"], buffered);
  const Tree adders = tree(simd, count ? 1 : ax + wx, 1, levels);
  b.lut("tree", static_cast<double>(pe) * adders.adder_bits);
  b.ff("tree", static_cast<double>(pe) * adders.register_bits);
  if (count) {
    b.lut("sign", pe * (simd + levels + 1));
  } else {
    add_products(b, v, pe * simd);
  }
  b.lut("accumulate", sf > 1 ? pe * acc : 0);
  b.ff("accumulate", sf > 1 ? pe * acc : pe * std::min(acc, ax + wx + levels));
}

void describe_plugin(const Values& v, Builder& b) {
  const auto count = [&](std::string_view name) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(v[name], 0));
  };
  b.exact({count("LUT"), count("LUTRAM"), count("FF"), count("DSP"), count("RAMB18"), count("RAMB36"),
           count("URAM")});
}

void describe_unrolled(const Values& v, Builder& b) {
  b.lut("one", 1);
  b.lut("add", v["ADDBITS"]);
  b.lut("adder", v["ADDERS"]);
  b.ff("one", 1);
  b.ff("flags", v["LATENCY"]);
  b.ff("value", v["REGBITS"]);
}

void describe_vvu(const Values& v, Builder& b) {
  const std::int64_t pe = v["PE"], cf = v["CHANNELS"] / pe, taps = v["TAPS"], acc = v["ACCBITS"];
  const std::int64_t depth = std::max<std::int64_t>(cf, 2);
  const std::int64_t ax = signed_bits(v["ABITS"], v["AKIND"]), wx = signed_bits(v["WBITS"], v["WKIND"]);
  const std::int64_t counters = counter_bits(cf) + counter_bits(taps) + counter_bits(cf * taps);
  b.lut("one", 1);
  b.lut("counter", counters);
  b.ff("one", 1);
  b.ff("counter", counters + 2 * counter_bits(cf));
  add_table(b, pe * v["WBITS"], cf * taps, v["WSTYLE"], v["LOADED"] != 0);
  b.ff("input", pe * v["ABITS"]);
  add_products(b, v, pe);
  b.ff("product", pe * (ax + wx));
  b.exact(simple_dual_port(pe * acc, depth, MemoryStyle::kDistributed));
  b.lut("memory", ((depth + 63) / 64 - 1) * pe * acc);
  b.lut("accumulate", pe * acc);
  b.ff("accumulate", pe * acc);
  if (v["BIAS"] != 0) add_table(b, pe * acc, cf, 0, v["LOADED"] != 0);
}

void describe_requant(const Values& v, Builder& b) {
  if (v["LOADED"] != 0) return describe_loaded_requant(v, b);
  const std::int64_t pe = v["PE"], nf = v["UNIFORM"] != 0 ? 1 : v["CHANNELS"] / pe;
  const std::int64_t acc = v["ACCBITS"], mbits = v["MBITS"], offbits = v["OFFBITS"], shift = v["SHIFT"];
  const std::int64_t product = acc + mbits;
  const std::int64_t z = offbits == 0 ? product : std::max(product, offbits) + 1;
  const bool constants = nf == 1, even = v["ROUND_HALF_EVEN"] != 0;
  const bool variable = shift < 0 && !constants;
  const std::int64_t shift_bits = shift < 0 ? v["SBITS"] : 0;
  const std::int64_t quotient =
      shift >= 0 ? std::max<std::int64_t>(z - shift, v["OBITS"] + 1) : z + (even ? 1 : 0);
  const std::int64_t stages = 2 + (mbits > 0 ? 1 : 0) + (offbits > 0 ? 1 : 0) + (even ? 1 : 0);
  b.lut("one", 1);
  b.lut("counter", counter_bits(nf));
  b.ff("one", 1);
  b.ff("control", counter_bits(nf) + stages);
  if (mbits + offbits + shift_bits > 0) {
    add_table(b, pe * (mbits + offbits + shift_bits), nf, 0, false);
  }
  if (mbits > 0) {
    const std::uint64_t slices = product_slices(acc, mbits, product);
    b.slices(slices, pe);
    b.lut("long_product", slices > 1 ? pe * product : 0);
    b.ff("product", pe * product);
    b.ff("rest", constants ? 0 : pe * (offbits + shift_bits));
  }
  if (offbits > 0) {
    b.lut(constants ? "sum_constant" : "sum", pe * z);
    b.ff("sum", pe * z);
    b.ff("shift", variable ? pe * shift_bits : 0);
  }
  if (even) {
    b.lut("round", pe * z);
    b.lut("round_mask", variable ? pe * z : 0);
    b.ff("round", pe * z);
    b.ff("shift", variable ? pe * shift_bits : 0);
  }
  b.lut("shift", variable ? pe * z : 0);
  b.lut("shift_bits", variable ? pe * shift_bits * v["OBITS"] : 0);
  b.lut("clamp", pe * quotient);
  b.lut("lane", pe);
  b.lut("output", pe * v["OBITS"]);
  b.ff("input", pe * acc);
  b.ff("output", pe * v["OBITS"]);
}

void describe_threshold(const Values& v, Builder& b) {
  const std::int64_t pe = v["PE"], nf = v["UNIFORM"] != 0 ? 1 : v["CHANNELS"] / pe;
  const std::int64_t acc = v["ACCBITS"], levels = v["OBITS"];
  const bool loaded = v["LOADED"] != 0;
  b.lut("one", 1);
  b.lut("counter", counter_bits(nf));
  b.lut("compare", pe * levels * (acc + 1));
  b.ff("one", 1);
  b.ff("counter", counter_bits(nf));
  b.ff("flags", levels);
  b.ff("input", pe * levels * acc);
  b.ff("found", pe * levels * (levels - 1) / 2 + pe * levels);
  b.ff("channel", counter_bits(nf) * (levels - 1));
  for (std::int64_t level = 0; level < levels; ++level) {
    for (std::int64_t lane = 0; lane < pe; ++lane) {
      add_table(b, acc + 1, nf << std::min<std::int64_t>(level, 20), 0, loaded);
    }
  }
}

void describe_add(const Values& v, Builder& b) {
  const std::int64_t simd = v["SIMD"], z = v["ZBITS"];
  const auto slices = [&](std::int64_t factor, std::int64_t bits) -> std::uint64_t {
    const std::uint64_t size = static_cast<std::uint64_t>(factor < 0 ? -factor : factor);
    if (size == 0 || (factor > 0 && (size & (size - 1)) == 0)) return 0;  // a shift
    const std::int64_t constant =
        std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_width(size)) + 1, z);
    return product_slices(bits + 1, constant, std::min(z, bits + 1 + constant));
  };
  b.slices(slices(v["A_FACTOR"], v["ABITS"]), simd);
  b.slices(slices(v["B_FACTOR"], v["BBITS"]), simd);
  b.lut("one", 1);
  b.lut("sum", simd * z);
  b.lut("offset", v["OFFSET"] != 0 ? simd * z : 0);
  b.lut("clamp", simd * std::max<std::int64_t>(z - v["SHIFT"], 1));
  b.lut("output", simd * v["OBITS"]);
  b.ff("one", 1);
  b.ff("products", 2 * simd * z);
  b.ff("sum", simd * z);
  b.ff("output", simd * v["OBITS"]);
}

void describe_lut(const Values& v, Builder& b) {
  b.lut("one", 1);
  b.ff("one", 1);
  b.ff("data", v["SIMD"] * v["OBITS"]);
  for (std::int64_t lane = 0; lane < v["SIMD"]; ++lane) {
    add_table(b, v["OBITS"], std::int64_t{1} << std::min<std::int64_t>(v["IBITS"], 24), v["STYLE"],
              v["LOADED"] != 0);
  }
}

}  // namespace millrace::compiler::generators
