#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// Lines of constants.
std::int64_t lines(const Values& v) {
  return v["UNIFORM"] != 0 ? 1 : v["CHANNELS"] / v["PE"];
}

std::uint64_t latency(const Values& v) {
  return 2U + (v["MBITS"] != 0 ? 1U : 0U) + (v["OFFBITS"] != 0 ? 1U : 0U) +
         (v["ROUND_HALF_EVEN"] != 0 ? 1U : 0U);
}

/// Constants that are loaded are not known beforehand: every shift is possible, and so is every bit of a
/// line. The terms that are fitted to such rows have names of their own, so that neither kind moves the
/// other's figures.
void loaded_cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], nf = lines(v);
  const std::int64_t acc = v["ACCBITS"], mbits = v["MBITS"], offbits = v["OFFBITS"], obits = v["OBITS"];
  const bool even = v["ROUND_HALF_EVEN"] != 0;
  const std::int64_t shift_bits = v["SHIFT"] < 0 ? v["SBITS"] : 0, product = acc + mbits;
  const std::int64_t z = offbits == 0 ? product : std::max(product, offbits) + 1;
  const std::int64_t quotient = std::max<std::int64_t>(z + (even ? 1 : 0), obits + 2);
  // Of the shifter; longer shifts leave the sign.
  const std::int64_t levels = std::min(shift_bits, clog2(quotient));
  add_table(f, pe * (mbits + offbits + shift_bits), nf, 0, true);
  f.add_lut("loaded_one", 1);
  f.add_lut("loaded_counter", clog2(nf));
  f.add_lut("loaded_shift", pe * quotient * levels);
  f.add_lut("loaded_clamp", pe * quotient);
  f.add_lut("loaded_lane", pe);
  f.add_lut("loaded_sum", offbits > 0 ? pe * z : 0);
  f.add_lut("loaded_round", even ? pe * z : 0);
  f.add_ff("loaded_register", clog2(nf) + static_cast<std::int64_t>(latency(v)) + pe * (acc + obits));
  if (mbits > 0) {
    const std::uint64_t slices = product_slices(acc, mbits, product);
    f.add_slices(slices, pe);
    f.add_lut("long_product", slices > 1 ? pe * product : 0);
    f.add_ff("loaded_register", pe * (product + offbits + shift_bits));
  }
  if (offbits > 0) f.add_ff("loaded_register", pe * (z + shift_bits));
  if (even) f.add_ff("loaded_register", pe * (z + 1 + shift_bits));
}

void cost(const Values& v, Features& f) {
  if (v["LOADED"] != 0) return loaded_cost(v, f);
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
  f.add_ff("control", clog2(nf) + static_cast<std::int64_t>(latency(v)));
  if (mbits + offbits + shift_bits > 0) add_table(f, pe * (mbits + offbits + shift_bits), nf, 0, false);
  if (mbits > 0) {
    const std::uint64_t slices = product_slices(acc, mbits, product);
    f.add_slices(slices, pe);
    f.add_lut("long_product", slices > 1 ? pe * product : 0);
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

/// Multipliers with their top bit set, and shifts that differ by a few.
std::vector<ConstantFile> constants(const Values& v) {
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
}

}  // namespace

Module mr_requant() {
  return {.name = "mr_requant",
          .any_value = {"MBITS", "OFFBITS", "SHIFT", "LOWEST", "HIGHEST", "ROUND_HALF_EVEN", "ZERO_POINT",
                        "UNIFORM", "LOADED"},
          .divides = {{"CHANNELS", "PE"}},
          .load_bits = [](const Values& v) { return v["PE"] * (v["MBITS"] + v["OFFBITS"] + v["SBITS"]); },
          .cost = cost,
          .play = play_pipeline,
          .latency = latency,
          .constants = constants,
          .frame = vectors_frame};
}

}  // namespace millrace::compiler::generators::modules
