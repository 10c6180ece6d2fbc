// Describes modules that compute element by element: sums, tables, and requantisation by products or thresholds.
#include <algorithm>
#include <string>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// The `frame` function of a module that works on vectors of CHANNELS elements, PE elements per beat.
Beats vectors_frame(const Values& v, std::int64_t) {
  constexpr std::int64_t kVectors = 10;
  const std::int64_t beats = kVectors * v["CHANNELS"] / v["PE"];
  return {{beats}, {beats}};
}

/// Returns the number of lines of requantisation constants, or of thresholds in the first level of the search.
std::int64_t lines(const Values& v) {
  return v["UNIFORM"] != 0 ? 1 : v["CHANNELS"] / v["PE"];
}

/// Returns how many DSP slices a product with a constant takes.
std::uint64_t slices(std::int64_t factor, std::int64_t bits, std::int64_t z) {
  const std::uint64_t size = static_cast<std::uint64_t>(factor < 0 ? -factor : factor);
  if (size == 0 || (factor > 0 && (size & (size - 1)) == 0)) return 0;  // a shift is enough
  const std::int64_t constant =
      std::min<std::int64_t>(static_cast<std::int64_t>(std::bit_width(size)) + 1, z);
  return product_slices(bits + 1, constant, std::min(z, bits + 1 + constant));
}

std::uint64_t requant_latency(const Values& v) {
  return 2U + (v["MBITS"] != 0 ? 1U : 0U) + (v["OFFBITS"] != 0 ? 1U : 0U) +
         (v["ROUND_HALF_EVEN"] != 0 ? 1U : 0U);
}

/// Adds the cost of an mr_requant with loaded constants. Their values are unknown, so every shift is possible. The
/// terms have their own names, so that fitting them does not change the figures of constants in the FPGA image.
void loaded_requant_cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], nf = lines(v);
  const std::int64_t acc = v["ACCBITS"], mbits = v["MBITS"], offbits = v["OFFBITS"], obits = v["OBITS"];
  const bool even = v["ROUND_HALF_EVEN"] != 0;
  const std::int64_t shift_bits = v["SHIFT"] < 0 ? v["SBITS"] : 0, product = acc + mbits;
  const std::int64_t z = offbits == 0 ? product : std::max(product, offbits) + 1;
  const std::int64_t quotient = std::max<std::int64_t>(z + (even ? 1 : 0), obits + 2);
  // The number of the shifter's levels. A shift by more bits than the quotient has leaves only the sign, so levels for
  // longer shifts do not exist.
  const std::int64_t levels = std::min(shift_bits, clog2(quotient));
  add_table(f, pe * (mbits + offbits + shift_bits), nf, 0, true);
  f.add_lut("loaded_one", 1);
  f.add_lut("loaded_counter", clog2(nf));
  f.add_lut("loaded_shift", pe * quotient * levels);
  f.add_lut("loaded_clamp", pe * quotient);
  f.add_lut("loaded_lane", pe);
  f.add_lut("loaded_sum", offbits > 0 ? pe * z : 0);
  f.add_lut("loaded_round", even ? pe * z : 0);
  f.add_ff("loaded_register", clog2(nf) + static_cast<std::int64_t>(requant_latency(v)) + pe * (acc + obits));
  if (mbits > 0) {
    const std::uint64_t each = product_slices(acc, mbits, product);
    f.add_slices(each, pe);
    f.add_lut("long_product", each > 1 ? pe * product : 0);
    f.add_ff("loaded_register", pe * (product + offbits + shift_bits));
  }
  if (offbits > 0) f.add_ff("loaded_register", pe * (z + shift_bits));
  if (even) f.add_ff("loaded_register", pe * (z + 1 + shift_bits));
}

void requant_cost(const Values& v, Features& f) {
  if (v["LOADED"] != 0) return loaded_requant_cost(v, f);
  const std::int64_t pe = v["PE"], nf = lines(v);
  const std::int64_t acc = v["ACCBITS"], mbits = v["MBITS"], offbits = v["OFFBITS"], shift = v["SHIFT"];
  const std::int64_t product = acc + mbits;
  const std::int64_t z = offbits == 0 ? product : std::max(product, offbits) + 1;
  const bool constant = nf == 1, even = v["ROUND_HALF_EVEN"] != 0;
  const bool variable = shift < 0 && !constant;
  const std::int64_t shift_bits = shift < 0 ? v["SBITS"] : 0;
  const std::int64_t quotient =
      shift >= 0 ? std::max<std::int64_t>(z - shift, v["OBITS"] + 1) : z + (even ? 1 : 0);
  f.add_both("one", 1);
  f.add_lut("counter", clog2(nf));
  f.add_ff("control", clog2(nf) + static_cast<std::int64_t>(requant_latency(v)));
  if (mbits + offbits + shift_bits > 0) add_table(f, pe * (mbits + offbits + shift_bits), nf, 0, false);
  if (mbits > 0) {
    const std::uint64_t each = product_slices(acc, mbits, product);
    f.add_slices(each, pe);
    f.add_lut("long_product", each > 1 ? pe * product : 0);
    f.add_ff("product", pe * product);
    f.add_ff("rest", constant ? 0 : pe * (offbits + shift_bits));
  }
  if (offbits > 0) {
    f.add_lut(constant ? "sum_constant" : "sum", pe * z);
    f.add_ff("sum", pe * z);
    f.add_ff("shift", variable ? pe * shift_bits : 0);
  }
  if (even) {
    f.add_lut("round", pe * z);
    f.add_lut("round_mask", variable ? pe * z : 0);
    f.add_ff("round", pe * z);
    f.add_ff("shift", variable ? pe * shift_bits : 0);
  }
  f.add_lut("shift", variable ? pe * z : 0);
  f.add_lut("shift_bits", variable ? pe * shift_bits * v["OBITS"] : 0);
  f.add_lut("clamp", pe * quotient);
  f.add_lut("lane", pe);
  f.add_lut("output", pe * v["OBITS"]);
  f.add_ff("input", pe * acc);
  f.add_ff("output", pe * v["OBITS"]);
}

}  // namespace

Module mr_add() {
  Module m{.name = "mr_add", .latency = always<3>};
  m.any_value = {"AKIND", "BKIND", "A_FACTOR", "B_FACTOR", "OFFSET", "SHIFT", "LOWEST", "HIGHEST"};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t simd = v["SIMD"], z = v["ZBITS"];
    f.add_slices(slices(v["A_FACTOR"], v["ABITS"], z), simd);
    f.add_slices(slices(v["B_FACTOR"], v["BBITS"], z), simd);
    f.add_lut("one", 1);
    f.add_lut("sum", simd * z);
    f.add_lut("offset", v["OFFSET"] != 0 ? simd * z : 0);
    f.add_lut("clamp", simd * std::max<std::int64_t>(z - v["SHIFT"], 1));
    f.add_lut("output", simd * v["OBITS"]);
    f.add_ff("one", 1);
    f.add_ff("products", 2 * simd * z);
    f.add_ff("sum", simd * z);
    f.add_ff("output", simd * v["OBITS"]);
  };
  m.play = [](const PlayedInstance& p, const Values&) -> TimingUnit {
    return {[&a = p.in(0), &b = p.in(1), &out = p.out(), delay = Delay(3)]() mutable {
      const bool en = out.free();
      a.ready = en && b.valid;
      b.ready = en && a.valid;
      if (en) out.valid = delay(a.valid && b.valid);
    }};
  };
  m.frame = [](const Values&, std::int64_t interval) { return Beats{{interval, interval}, {interval}}; };
  return m;
}

Module mr_table() {
  Module m{.name = "mr_table", .any_value = {"STYLE", "LOADED"}};
  m.cost = [](const Values& v, Features& f) {
    add_table(f, v["WIDTH"], v["DEPTH"], v["STYLE"], v["LOADED"] != 0);
  };
  // In calibration runs, a table contains random numbers of 8 bits with the normal distribution that weights have. If
  // the lines of the table have fewer than 8 bits, the numbers are as wide as a line and uniformly distributed.
  m.constants = [](const Values& v) -> std::vector<ConstantFile> {
    if (v["LOADED"] != 0) return {};
    const std::int64_t width = v["WIDTH"];
    return {element_lines("FILE", "table.hex", v["DEPTH"], std::max<std::int64_t>(width / 8, 1),
                          std::min<std::int64_t>(width, 8), width < 8 ? kUnsigned : kSigned)};
  };
  return m;
}

Module mr_lut() {
  Module m{.name = "mr_lut",
           .any_value = {"FLIP", "STYLE", "LOADED"},
           .play = play_pipeline,
           .latency = always<2>,
           .frame = passing_frame};
  m.load_bits = [](const Values& v) { return v["OBITS"]; };
  m.cost = [](const Values& v, Features& f) {
    f.add_both("one", 1);
    f.add_ff("data", v["SIMD"] * v["OBITS"]);
    for (std::int64_t lane = 0; lane < v["SIMD"]; ++lane)
      add_table(f, v["OBITS"], std::int64_t{1} << std::min<std::int64_t>(v["IBITS"], 24), v["STYLE"],
                v["LOADED"] != 0);
  };
  m.constants = [](const Values& v) -> std::vector<ConstantFile> {
    if (v["LOADED"] != 0) return {};
    return {element_lines("FILE", "lut.hex", std::int64_t{1} << v["IBITS"], 1, v["OBITS"], kUnsigned)};
  };
  return m;
}

Module mr_requant() {
  Module m{.name = "mr_requant",
           .divides = {{"CHANNELS", "PE"}},
           .cost = requant_cost,
           .play = play_pipeline,
           .latency = requant_latency,
           .frame = vectors_frame};
  m.any_value = {"MBITS",           "OFFBITS",    "SHIFT",   "LOWEST", "HIGHEST",
                 "ROUND_HALF_EVEN", "ZERO_POINT", "UNIFORM", "LOADED"};
  m.load_bits = [](const Values& v) { return v["PE"] * (v["MBITS"] + v["OFFBITS"] + v["SBITS"]); };
  // The constant files for calibration contain multipliers with a one in the highest bit, and shifts that differ by a
  // few bits.
  m.constants = [](const Values& v) -> std::vector<ConstantFile> {
    if (v["LOADED"] != 0) return {};
    const std::int64_t mbits = v["MBITS"], offbits = v["OFFBITS"], sbits = v["SBITS"], shift = v["SHIFT"];
    ConstantFile file{"QFILE", "requant.hex", {}, lines(v), {}};
    for (std::int64_t lane = 0; lane < v["PE"]; ++lane) {
      if (mbits > 0)
        file.line.push_back({mbits, 0, std::int64_t{1} << (mbits - 2), (std::int64_t{1} << (mbits - 1)) - 1});
      if (offbits > 0) file.line.push_back({offbits, std::max<std::int64_t>(offbits - 2, 2)});
      const std::int64_t least = shift >= 0 ? shift : std::int64_t{1} << (sbits - 2);
      file.line.push_back({sbits, 0, least, shift >= 0 ? shift : least + 2});
    }
    return {file};
  };
  return m;
}

Module mr_threshold() {
  Module m{.name = "mr_threshold",
           .any_value = {"LOWEST", "UNIFORM", "LOADED"},
           .divides = {{"CHANNELS", "PE"}},
           .play = play_pipeline,
           .frame = vectors_frame};
  m.load_bits = [](const Values& v) { return v["ACCBITS"] + 1; };
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t pe = v["PE"], nf = lines(v), acc = v["ACCBITS"], levels = v["OBITS"];
    f.add_both("one", 1);
    f.add_both("counter", clog2(nf));
    f.add_lut("compare", pe * levels * (acc + 1));
    f.add_ff("flags", levels);
    f.add_ff("input", pe * levels * acc);
    f.add_ff("found", pe * levels * (levels - 1) / 2 + pe * levels);
    f.add_ff("channel", clog2(nf) * (levels - 1));
    for (std::int64_t level = 0; level < levels; ++level)
      for (std::int64_t lane = 0; lane < pe; ++lane)
        add_table(f, acc + 1, nf << std::min<std::int64_t>(level, 20), 0, v["LOADED"] != 0);
  };
  m.latency = [](const Values& v) { return static_cast<std::uint64_t>(v["OBITS"]) + 1; };
  // Each lane has its own memory file for each level of the binary search.
  m.constants = [](const Values& v) {
    std::vector<ConstantFile> files;
    for (std::int64_t level = 0; v["LOADED"] == 0 && level < v["OBITS"]; ++level)
      for (std::int64_t lane = 0; lane < v["PE"]; ++lane) {
        std::string number = std::to_string(lane);
        number.insert(0, 3 - number.size(), '0');
        files.push_back(
            element_lines("TFILE", "thresholds", lines(v) << level, 1, v["ACCBITS"] + 1, kSigned));
        files.back().suffix = "." + std::to_string(level) + "." + number;
      }
    return files;
  };
  return m;
}

}  // namespace millrace::compiler::generators::modules
