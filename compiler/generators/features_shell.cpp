// Terms of the shell: what joins a partition to the host.
#include <algorithm>

#include "compiler/generators/feature_builder.hpp"

namespace millrace::compiler::generators {
namespace {

void describe_port(Builder& b, std::int64_t data_bytes, std::int64_t burst, std::int64_t lanes,
                   std::int64_t element_bytes, std::int64_t bits, bool in) {
  const std::int64_t beat = lanes * element_bytes, bus = data_bytes;
  // A width adapter between bus and beat; where neither divides the other it grows with their product.
  const bool divides = beat % bus == 0 || bus % beat == 0;
  b.lut(in ? "ingress" : "egress", 1);
  b.lut("bus", 8 * bus);
  b.lut("beat", 8 * beat);
  b.lut("regroup", divides ? 0 : 8 * beat * bus);
  b.lut("elements", lanes * bits);
  b.ff(in ? "ingress" : "egress", 1);
  b.ff("bus", 8 * bus);
  b.ff("beat", 8 * beat);
  b.ff("regroup", divides ? 0 : 8 * (beat + bus));
  // The burst's words wait in LUTRAM.
  b.exact(simple_dual_port(8 * bus, 2 * burst, MemoryStyle::kDistributed));
}

void describe_registers(Builder& b, std::int64_t clock_mhz) {
  b.lut("control", 1);
  b.lut("divider", clog2(clock_mhz));
  b.ff("control", 1);
  b.ff("divider", clog2(clock_mhz));
}

}  // namespace

void describe_control(const Values& v, Builder& b) {
  describe_registers(b, v["CLOCK_MHZ"]);
}

void describe_supervisor(const Values& v, Builder& b) {
  b.exact(simple_dual_port(8 * v["DATA_BYTES"], 32, MemoryStyle::kDistributed));
  b.lut("one", 1);
  b.lut("bus", 8 * v["DATA_BYTES"]);
  b.ff("one", 1);
  b.ff("bus", 8 * v["DATA_BYTES"]);
}

void describe_ingress(const Values& v, Builder& b) {
  describe_port(b, v["DATA_BYTES"], v["BURST"], v["LANES"], v["EBYTES"], v["ABITS"], true);
}

void describe_egress(const Values& v, Builder& b) {
  describe_port(b, v["DATA_BYTES"], v["BURST"], v["LANES"], v["EBYTES"], v["ABITS"], false);
}

void describe_shell(const Values& v, Builder& b) {
  describe_registers(b, v["CLOCK_MHZ"]);
  describe_port(b, v["DATA_BYTES"], v["BURST"], v["I_LANES"], v["I_EBYTES"], v["I_BITS"], true);
  describe_port(b, v["DATA_BYTES"], v["BURST"], v["O_LANES"], v["O_EBYTES"], v["O_BITS"], false);
  b.exact(simple_dual_port(160, v["TAGS"], MemoryStyle::kDistributed));
  b.ff("tags", 160);
  b.lut("tags", clog2(v["TAGS"]));
}

}  // namespace millrace::compiler::generators
