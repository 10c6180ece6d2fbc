#include "compiler/generators/modules/parts.hpp"

namespace millrace::compiler::generators::modules {
namespace {

void cost(const Values& v, Features& f) {
  const std::int64_t bits = 8 * v["DATA_BYTES"];
  // The words that are still to come, and the wait after them.
  const std::int64_t counters = clog2(v["WORDS"] + 1) + clog2(v["HOPS"] + 5);
  f.add_both("one", 1);
  f.add_both("bus", bits);  // registers: a word behind the buffer, and one that is taken to pieces
  f.add_lut("counter", counters);
  // With words asked for and places free, and the buffer's own two.
  f.add_ff("counter", counters + 4 * clog2(v["BURST"]));
  // The burst's words wait in LUTRAM.
  f.exact += simple_dual_port(bits, 2 * v["BURST"], MemoryStyle::kDistributed);
}

}  // namespace

Module mr_parameters() {
  return {.name = "mr_parameters", .cost = cost};
}

}  // namespace millrace::compiler::generators::modules
