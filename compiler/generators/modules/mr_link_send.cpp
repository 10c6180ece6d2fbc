
#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const LinkPort port(v);
  const std::int64_t words = ceil_div(v["BEATS"] * port.beat, port.bits),
                     depth = 2 * v["PACKET"] / v["BYTES"];
  const std::int64_t counters = port.counters + clog2(words + 1) + clog2(depth + 3);
  f.add_lut("one", 1);
  f.add_lut("bus", port.bits);
  f.add_lut("counter", counters);
  // Zeros fill a frame's last word. Where beats are words, that is logic before the memory; an adapter's
  // registers have it anyway.
  f.add_lut("fill", port.beat == port.bits ? port.bits : 0);
  f.add_ff("one", 1);
  f.add_ff("counter", counters + 4 * clog2(depth));
  add_width_adapter(f, port.unit, port.beat / port.unit, port.bits / port.unit);
  add_memory(f, 96, 4, false);
  add_memory(f, port.bits, depth, wants_block(port.bits, depth));
}

}  // namespace

Module mr_link_send() {
  return {.name = "mr_link_send", .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
