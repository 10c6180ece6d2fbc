#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  f.add_both("one", 1);
  f.add_both("counter", clog2(v["H"]) + clog2(v["W"]) + clog2(v["CF"]));
  f.add_ff("data", v["WIDTH"]);
}

}  // namespace

Module mr_crop() {
  return {.name = "mr_crop", .any_value = {"TOP", "LEFT", "BOTTOM", "RIGHT"}, .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
