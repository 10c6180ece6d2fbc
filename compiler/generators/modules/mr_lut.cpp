#include <algorithm>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  f.add_both("one", 1);
  f.add_ff("data", v["SIMD"] * v["OBITS"]);
  for (std::int64_t lane = 0; lane < v["SIMD"]; ++lane)
    add_table(f, v["OBITS"], std::int64_t{1} << std::min<std::int64_t>(v["IBITS"], 24), v["STYLE"],
              v["LOADED"] != 0);
}

std::vector<ConstantFile> constants(const Values& v) {
  if (v["LOADED"] != 0) return {};
  return {element_lines("FILE", "lut.hex", std::int64_t{1} << v["IBITS"], 1, v["OBITS"], kUnsigned)};
}

}  // namespace

Module mr_lut() {
  return {.name = "mr_lut",
          .any_value = {"FLIP", "STYLE", "LOADED"},
          .load_bits = [](const Values& v) { return v["OBITS"]; },
          .cost = cost,
          .play = play_pipeline,
          .latency = always<2>,
          .constants = constants,
          .frame = passing_frame};
}

}  // namespace millrace::compiler::generators::modules
