#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t pe = v["PE"], cf = v["CHANNELS"] / pe, taps = v["TAPS"], acc = v["ACCBITS"];
  const std::int64_t depth = std::max<std::int64_t>(cf, 2);
  const std::int64_t counters = clog2(cf) + clog2(taps) + clog2(cf * taps);
  f.add_lut("one", 1);
  f.add_lut("counter", counters);
  f.add_ff("one", 1);
  f.add_ff("counter", counters + 2 * clog2(cf));
  add_table(f, pe * v["WBITS"], cf * taps, v["WSTYLE"], v["LOADED"] != 0);
  f.add_ff("input", pe * v["ABITS"]);
  add_products(f, v, pe);
  f.add_ff("product",
           pe * (signed_operand_bits(v["ABITS"], v["AKIND"]) + signed_operand_bits(v["WBITS"], v["WKIND"])));
  f.exact += simple_dual_port(pe * acc, depth, MemoryStyle::kDistributed);
  f.add_lut("memory", ((depth + 63) / 64 - 1) * pe * acc);
  f.add_both("accumulate", pe * acc);
  if (v["BIAS"] != 0) add_table(f, pe * acc, cf, 0, v["LOADED"] != 0);
}

std::vector<ConstantFile> constants(const Values& v) {
  std::vector<ConstantFile> files;
  const std::int64_t pe = v["PE"];
  if (v["LOADED"] == 0)
    files.push_back(
        element_lines("WFILE", "weights.hex", v["TAPS"] * (v["CHANNELS"] / pe), pe, v["WBITS"], v["WKIND"]));
  if (v["BIAS"] != 0) files.push_back(bias_lines(v, v["CHANNELS"]));
  return files;
}

std::unique_ptr<TimingUnit> play(const PlayedInstance& p, const Values& v) {
  return played<LastRound>(p.in(), p.out(), 3U, v["TAPS"], v["CHANNELS"] / v["PE"]);
}

Beats frame(const Values& v, std::int64_t) {
  const std::int64_t folds = v["CHANNELS"] / v["PE"];
  return {{v["TAPS"] * folds}, {folds}};
}

}  // namespace

Module mr_vvu() {
  return {.name = "mr_vvu",
          .any_value = {"AKIND", "WKIND", "MUL", "BIAS", "LOADED", "WSTYLE"},
          .divides = {{"CHANNELS", "PE"}},
          .load_bits = [](const Values& v) { return v["PE"] * v["WBITS"]; },
          .cost = cost,
          .play = play,
          .latency = always<3>,
          .constants = constants,
          .frame = frame};
}

}  // namespace millrace::compiler::generators::modules
