// Terms of the shell and the links: what joins a partition to the host and to other cards.
#include <algorithm>

#include "compiler/generators/feature_builder.hpp"

namespace millrace::compiler::generators {
namespace {

void describe_port(Builder& b, const Values& v, bool in) {
  const std::int64_t beat = v["LANES"] * v["EBYTES"], bus = v["DATA_BYTES"], burst = v["BURST"];
  b.lut(in ? "ingress" : "egress", 1);
  b.lut("bus", 8 * bus);
  b.ff(in ? "ingress" : "egress", 1);
  b.ff("bus", 8 * bus);
  if (in) {
    add_width_adapter(b, 8, bus, beat);
  } else {
    // Behind the frame zeros fill its last word, beat by beat.
    b.lut("fill", beat < bus && bus % beat == 0 ? v["LANES"] * v["ABITS"] : 0);
    add_width_adapter(b, 8, beat, bus, v["ABITS"], 8 * v["EBYTES"]);
  }
  // The burst's words wait in LUTRAM.
  b.exact(simple_dual_port(8 * bus, 2 * burst, MemoryStyle::kDistributed));
}

/// Elements of a channel to words of a cable or back; and the port's counters.
struct LinkPort {
  std::int64_t bits, beat, unit, counters;
  explicit LinkPort(const Values& v)
      : bits(8 * v["BYTES"]), beat(v["LANES"] * v["ABITS"]), unit(std::min(beat & -beat, bits)) {
    counters = clog2(v["BEATS"] + 1) + clog2(v["REFRESH"] + 1);
  }
};

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

void describe_weight_reader(const Values& v, Builder& b) {
  const std::int64_t bus = v["DATA_BYTES"], bytes = (v["WIDTH"] + 7) / 8;
  const std::int64_t words = (bytes + bus - 1) / bus;
  std::int64_t pitch = 1;
  while (pitch < bytes) pitch *= 2;
  const bool shared = bytes < bus && pitch < bus;
  // What no line uses of a word is not kept.
  const std::int64_t used = shared ? bus / pitch * v["WIDTH"] : words == 1 ? v["WIDTH"] : 8 * bus;
  if (shared && v["BURST"] == 16) {
    // RAM32M16 takes 14 neighbouring bits of the whole word; a line may begin amid them.
    std::int64_t primitives = 0, next = 0;
    for (std::int64_t line = 0; line < bus / pitch; ++line) {
      const std::int64_t first = line * pitch * 8 / 14, last = (line * pitch * 8 + v["WIDTH"] - 1) / 14;
      primitives += std::max<std::int64_t>(0, last + 1 - std::max(first, next));
      next = std::max(next, last + 1);
    }
    Cost memory;
    memory.lut = memory.lutram = static_cast<std::uint64_t>(primitives * 8);
    b.exact(memory);
  } else {
    b.exact(simple_dual_port(used, 2 * v["BURST"], MemoryStyle::kDistributed));
  }
  b.lut("one", 1);
  b.lut("bus", used);
  b.lut("shared", shared ? used : 0);
  b.lut("long", words > 1 ? 8 * bus * words : 0);
  b.lut("lines", clog2(v["LINES"]));
  b.ff("one", 1);
  b.ff("bus", used);
  b.ff("shared", shared ? used : 0);
  b.ff("long", words > 1 ? 8 * bus * words : 0);
  b.ff("lines", clog2(v["LINES"]));
}

void describe_parameters(const Values& v, Builder& b) {
  const std::int64_t bits = 8 * v["DATA_BYTES"];
  // What is left to come, and the wait after it.
  const std::int64_t counters = clog2(v["WORDS"] + 1) + clog2(v["HOPS"] + 5);
  b.lut("one", 1);
  b.lut("bus", bits);
  b.lut("counter", counters);
  b.ff("one", 1);
  b.ff("bus", bits);  // a word behind the buffer, and one that is taken to pieces
  // With words asked for and places free, and the buffer's own two.
  b.ff("counter", counters + 4 * clog2(v["BURST"]));
  // The burst's words wait in LUTRAM.
  b.exact(simple_dual_port(bits, 2 * v["BURST"], MemoryStyle::kDistributed));
}

void describe_ingress(const Values& v, Builder& b) {
  describe_port(b, v, true);
}

void describe_egress(const Values& v, Builder& b) {
  describe_port(b, v, false);
}

void describe_link_send(const Values& v, Builder& b) {
  const LinkPort port(v);
  const std::int64_t words = (v["BEATS"] * port.beat + port.bits - 1) / port.bits;
  const std::int64_t depth = 2 * v["PACKET"] / v["BYTES"];
  const std::int64_t counters = port.counters + clog2(words + 1) + clog2(depth + 3);
  b.lut("one", 1);
  b.lut("bus", port.bits);
  b.lut("counter", counters);
  // A frame's last word is filled up with zeros: where beats are words, that is logic before the memory; in an
  // adapter's registers it is a part of what they take anyway.
  b.lut("fill", port.beat == port.bits ? port.bits : 0);
  b.ff("one", 1);
  b.ff("counter", counters + 4 * clog2(depth));
  add_width_adapter(b, port.unit, port.beat / port.unit, port.bits / port.unit);
  add_memory(b, 96, 4, false);
  add_memory(b, port.bits, depth, wants_block(port.bits, depth));
}

void describe_link_receive(const Values& v, Builder& b) {
  const LinkPort port(v);
  b.lut("one", 1);
  b.lut("bus", port.bits);
  b.lut("counter", port.counters + 6 * clog2(v["BUFFER"]));
  b.lut("pointer", clog2(v["MOST"]));
  b.ff("one", 1);
  b.ff("counter", port.counters + 6 * clog2(v["BUFFER"]) + 3 * clog2(v["MOST"]));
  add_width_adapter(b, port.unit, port.bits / port.unit, port.beat / port.unit);
  add_memory(b, 145, v["MOST"], false);
  add_memory(b, port.bits, v["BUFFER"], true);
}

void describe_link_hub(const Values& v, Builder& b) {
  const std::int64_t ports = v["PORTS"], connectors = v["CONNECTORS"], bits = 8 * v["BYTES"];
  b.lut("one", 1);
  b.lut("ports", ports);
  b.lut("connectors", connectors);
  b.lut("crc", connectors * bits);
  b.lut("choice", ports * connectors);
  b.lut("crossing", ports * connectors * bits);
  b.lut("header", ports * (connectors - 1) * 256);
  b.ff("one", 1);
  b.ff("ports", ports);
  b.ff("connectors", connectors);
  b.ff("bus", connectors * bits);
}

}  // namespace millrace::compiler::generators
