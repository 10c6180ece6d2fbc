#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  f.add_both("control", 1);
  f.add_both("divider", clog2(v["CLOCK_MHZ"]));
}

}  // namespace

Module mr_control() {
  return {.name = "mr_control", .any_value = {"LINK_PORTS"}, .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
