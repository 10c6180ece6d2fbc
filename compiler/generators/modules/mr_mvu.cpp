#include <algorithm>

#include "compiler/generators/modules/matrix_unit.hpp"
#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

/// Two dot products with one DSP slice a lane; returns the bits of their sums.
std::int64_t add_pairs(Features& f, const Values& v, std::int64_t pairs) {
  const std::int64_t simd = v["SIMD"], levels = clog2(simd);
  // Up to two levels add both fields packed; the levels above have two adders and a carry each.
  const std::int64_t packed_levels = std::min<std::int64_t>(levels, 2);
  const std::int64_t product = 27 + signed_operand_bits(v["ABITS"], v["AKIND"]);
  const AdderTree packed = adder_tree(simd, product, 0, packed_levels);
  const std::int64_t groups = (simd + (std::int64_t{1} << packed_levels) - 1) >> packed_levels;
  const AdderTree split = adder_tree(groups, 2 * 18 + 1, 2, levels - packed_levels);
  const double groups_own = static_cast<double>(groups * (2 * 18 + 1));
  f.add_lut("pair_tree", static_cast<double>(pairs) * (packed.adder_bits + split.adder_bits));
  f.add_ff("pair_tree",
           static_cast<double>(pairs) * (packed.register_bits + split.register_bits - groups_own));
  f.add_slices(product_slices(27, 9, 36), pairs * simd);
  return 18 + levels;
}

void cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], simd = v["SIMD"], nf = v["MH"] / pe, sf = v["MW"] / simd;
  const std::int64_t acc = v["ACCBITS"], levels = clog2(simd);
  const bool bias = v["BIAS"] != 0, loaded = v["LOADED"] != 0;
  f.add_lut("one", 1);
  f.add_both("counter", clog2(sf) + clog2(nf) + clog2(sf * nf));
  f.add_ff("one", 1);
  f.add_ff("flags", (levels + 2) * (sf > 1 ? 3 : 1));
  add_table(f, pe * simd * v["WBITS"], sf * nf, v["WSTYLE"], loaded);
  add_input_buffer(f, simd * v["ABITS"], v["IBUF"], nf > 1);

  const std::int64_t pairs = v["MUL"] == 2 ? pe / 2 : 0, plain = pe - 2 * pairs;
  std::int64_t sum_bits = 0;
  if (plain > 0) {
    add_dot_products(f, v, plain);
    sum_bits =
        signed_operand_bits(v["ABITS"], v["AKIND"]) + signed_operand_bits(v["WBITS"], v["WKIND"]) + levels;
  }
  if (pairs > 0) sum_bits = add_pairs(f, v, pairs);
  f.add_lut("accumulate", sf > 1 ? pe * acc : 0);
  f.add_lut("add_bias", sf == 1 && bias ? pe * acc : 0);
  f.add_ff("accumulate", sf > 1 || bias ? pe * acc : pe * std::min(acc, sum_bits));
  f.add_both("bias", bias ? clog2(nf) : 0);
  if (bias) add_table(f, pe * acc, nf, 0, loaded);
}

std::vector<ConstantFile> constants(const Values& v) {
  std::vector<ConstantFile> files;
  const std::int64_t pe = v["PE"], simd = v["SIMD"];
  if (v["LOADED"] == 0)
    files.push_back(element_lines("WFILE", "weights.hex", v["MH"] / pe * (v["MW"] / simd), pe * simd,
                                  v["WBITS"], v["WKIND"]));
  if (v["BIAS"] != 0) files.push_back(bias_lines(v, v["MH"]));
  return files;
}

}  // namespace

Module mr_mvu() {
  return {.name = "mr_mvu",
          .any_value = {"AKIND", "WKIND", "MUL", "BIAS", "LOADED", "WSTYLE"},
          .divides = {{"MH", "PE"}, {"MW", "SIMD"}},
          .load_bits = [](const Values& v) { return v["PE"] * v["SIMD"] * v["WBITS"]; },
          .cost = cost,
          .play = play_matrix_unit,
          .latency = matrix_unit_latency,
          .interval = [](const Values& v, std::uint64_t,
                         std::uint64_t out) { return matrix_unit_interval(v, out, 1); },
          .constants = constants,
          .frame = matrix_unit_frame};
}

}  // namespace millrace::compiler::generators::modules
