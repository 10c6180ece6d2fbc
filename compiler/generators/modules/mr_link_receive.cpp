
#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const LinkPort port(v);
  const std::int64_t counters = port.counters + 6 * clog2(v["BUFFER"]);
  f.add_lut("one", 1);
  f.add_lut("bus", port.bits);
  f.add_lut("counter", counters);
  f.add_lut("pointer", clog2(v["MOST"]));
  f.add_ff("one", 1);
  f.add_ff("counter", counters + 3 * clog2(v["MOST"]));
  add_width_adapter(f, port.unit, port.bits / port.unit, port.beat / port.unit);
  add_memory(f, 145, v["MOST"], false);
  add_memory(f, port.bits, v["BUFFER"], true);
}

}  // namespace

Module mr_link_receive() {
  return {.name = "mr_link_receive", .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
