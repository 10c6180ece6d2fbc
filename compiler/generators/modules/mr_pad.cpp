#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t oh = v["TOP"] + v["H"] + v["BOTTOM"], ow = v["LEFT"] + v["W"] + v["RIGHT"];
  f.add_both("one", 1);
  f.add_both("counter", clog2(oh) + clog2(ow) + clog2(v["CF"]));
  f.add_both("data", v["SIMD"] * v["ABITS"]);
}

}  // namespace

Module mr_pad() {
  return {.name = "mr_pad", .any_value = {"TOP", "LEFT", "BOTTOM", "RIGHT", "VALUE"}, .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
