#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  f.exact += simple_dual_port(8 * v["DATA_BYTES"], 32, MemoryStyle::kDistributed);
  f.add_both("one", 1);
  f.add_both("bus", 8 * v["DATA_BYTES"]);
}

}  // namespace

Module mr_supervisor() {
  return {.name = "mr_supervisor", .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
