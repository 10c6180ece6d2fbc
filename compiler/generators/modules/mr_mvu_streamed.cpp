#include <algorithm>

#include "compiler/generators/modules/matrix_unit.hpp"
#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], simd = v["SIMD"], nf = v["MH"] / pe, sf = v["MW"] / simd;
  const std::int64_t acc = v["ACCBITS"], levels = clog2(simd);
  f.add_both("one", 1);
  f.add_both("counter", clog2(sf) + clog2(nf));
  f.add_ff("flags", (levels + 2) * (sf > 1 ? 3 : 1));
  f.add_ff("line", pe * simd * v["WBITS"]);
  add_input_buffer(f, simd * v["ABITS"], v["IBUF"], nf > 1);
  add_dot_products(f, v, pe);
  f.add_lut("accumulate", sf > 1 ? pe * acc : 0);
  const std::int64_t sum_bits =
      signed_operand_bits(v["ABITS"], v["AKIND"]) + signed_operand_bits(v["WBITS"], v["WKIND"]) + levels;
  f.add_ff("accumulate", sf > 1 ? pe * acc : pe * std::min(acc, sum_bits));
}

std::uint64_t interval(const Values& v, std::uint64_t, std::uint64_t beats_out) {
  const std::int64_t line_bits = v["PE"] * v["SIMD"] * v["WBITS"];
  return matrix_unit_interval(v, beats_out, weight_line_cycles(static_cast<std::uint64_t>(line_bits)));
}

}  // namespace

Module mr_mvu_streamed() {
  return {.name = "mr_mvu_streamed",
          .any_value = {"AKIND", "WKIND", "MUL"},
          .divides = {{"MH", "PE"}, {"MW", "SIMD"}},
          .cost = cost,
          .play = play_matrix_unit,
          .latency = matrix_unit_latency,
          .interval = interval,
          .frame = matrix_unit_frame};
}

}  // namespace millrace::compiler::generators::modules
