// Describes modules around the dataflow: the shell's control, ports to the host and to cables, and modules that load
// constants and read weights. Their timing is not simulated.
#include <algorithm>
#include <bit>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/timing.hpp"

namespace millrace::compiler::generators {
namespace {

/// Adds the cost of mr_ingress or mr_egress: a port between the card's memory and a stream of elements.
void add_host_port(Features& f, const Values& v, bool in) {
  const std::int64_t beat = v["LANES"] * v["EBYTES"], bus = v["DATA_BYTES"];
  f.add_both(in ? "ingress" : "egress", 1);
  f.add_both("bus", 8 * bus);
  if (in) {
    add_width_adapter(f, 8, bus, beat);
  } else {
    // Zeros fill the last memory word of a frame, beat by beat.
    f.add_lut("fill", beat < bus && bus % beat == 0 ? v["LANES"] * v["ABITS"] : 0);
    add_width_adapter(f, 8, beat, bus, v["ABITS"], 8 * v["EBYTES"]);
  }
  // The words of a burst wait in LUTRAM.
  f.exact += simple_dual_port(8 * bus, 2 * v["BURST"], MemoryStyle::kDistributed);
}

/// Sizes of mr_link_send or mr_link_receive: a port between a stream of elements and the words of a cable.
struct LinkPort {
  std::int64_t bits, beat, unit, counters;
  explicit LinkPort(const Values& v)
      : bits(8 * v["BYTES"]),
        beat(v["LANES"] * v["ABITS"]),
        unit(std::min(beat & -beat, bits)),
        counters(clog2(v["BEATS"] + 1) + clog2(v["REFRESH"] + 1)) {}
};

/// How lines of weights are stored in memory words: several lines in each word, or one or more words for each line.
struct LineLayout {
  explicit LineLayout(const Values& v)
      : bus(v["DATA_BYTES"]),
        bytes(ceil_div(v["WIDTH"], 8)),
        pitch(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)))),
        shared(pitch < bus),
        words(shared ? 1 : ceil_div(bytes, bus)) {}
  std::int64_t bus, bytes, pitch;  // bytes of a word; of a line; between beginnings of lines in a shared word
  bool shared;
  std::int64_t words;  // words of a line
};

/// Returns the number of RAM32M16 primitives for memory words that contain several lines of weights. Each primitive
/// stores 14 adjacent bits, and any bit may begin a line.
std::int64_t shared_word_primitives(const LineLayout& layout, std::int64_t width) {
  std::int64_t primitives = 0, next = 0;
  for (std::int64_t line = 0; line < layout.bus / layout.pitch; ++line) {
    const std::int64_t begin = line * layout.pitch * 8, first = begin / 14, last = (begin + width - 1) / 14;
    primitives += std::max<std::int64_t>(0, last + 1 - std::max(first, next));
    next = std::max(next, last + 1);
  }
  return primitives;
}

}  // namespace

ReaderTiming reader_timing(const Instance& reader) {
  const Values v = Values::of(*find_module("mr_weight_reader"), reader.parameters).value();
  const LineLayout layout(v);
  const std::int64_t a_word = layout.shared ? layout.bus / layout.pitch : 1;
  const std::int64_t words = layout.shared ? ceil_div(v["LINES"], a_word) : v["LINES"] * layout.words;
  // A burst is requested at most every second cycle. A burst that is cut at a 4 KiB border counts as one burst here.
  const std::int64_t bursts = ceil_div(words, v["BURST"]);
  const auto cycles = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {cycles(layout.words), cycles(std::max(words * a_word, 2 * bursts)),
          cycles(5 + (layout.shared      ? 1
                      : layout.words > 1 ? layout.words
                                         : 0))};
}

namespace modules {

Module mr_control() {
  Module m{.name = "mr_control", .any_value = {"LINK_PORTS"}};
  m.cost = [](const Values& v, Features& f) {
    f.add_both("control", 1);
    f.add_both("divider", clog2(v["CLOCK_MHZ"]));
  };
  return m;
}

Module mr_supervisor() {
  Module m{.name = "mr_supervisor"};
  m.cost = [](const Values& v, Features& f) {
    f.exact += simple_dual_port(8 * v["DATA_BYTES"], 32, MemoryStyle::kDistributed);
    f.add_both("one", 1);
    f.add_both("bus", 8 * v["DATA_BYTES"]);
  };
  return m;
}

Module mr_ingress() {
  Module m{.name = "mr_ingress", .any_value = {"AKIND"}};
  m.cost = [](const Values& v, Features& f) { add_host_port(f, v, true); };
  return m;
}

Module mr_egress() {
  Module m{.name = "mr_egress", .any_value = {"AKIND"}};
  m.cost = [](const Values& v, Features& f) { add_host_port(f, v, false); };
  return m;
}

Module mr_link_hub() {
  Module m{.name = "mr_link_hub"};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t ports = v["PORTS"], connectors = v["CONNECTORS"], bits = 8 * v["BYTES"];
    f.add_both("one", 1);
    f.add_both("ports", ports);
    f.add_both("connectors", connectors);
    f.add_lut("crc", connectors * bits);
    f.add_lut("choice", ports * connectors);
    f.add_lut("crossing", ports * connectors * bits);
    f.add_lut("header", ports * (connectors - 1) * 256);
    f.add_ff("bus", connectors * bits);
  };
  return m;
}

Module mr_link_receive() {
  Module m{.name = "mr_link_receive"};
  m.cost = [](const Values& v, Features& f) {
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
  };
  return m;
}

Module mr_link_send() {
  Module m{.name = "mr_link_send"};
  m.cost = [](const Values& v, Features& f) {
    const LinkPort port(v);
    const std::int64_t words = ceil_div(v["BEATS"] * port.beat, port.bits),
                       depth = 2 * v["PACKET"] / v["BYTES"];
    const std::int64_t counters = port.counters + clog2(words + 1) + clog2(depth + 3);
    f.add_lut("one", 1);
    f.add_lut("bus", port.bits);
    f.add_lut("counter", counters);
    // Zeros fill the last word of a frame. If beats are as wide as words, logic before the memory inserts the zeros. If
    // beats are narrower, the adapter's registers insert them at no cost.
    f.add_lut("fill", port.beat == port.bits ? port.bits : 0);
    f.add_ff("one", 1);
    f.add_ff("counter", counters + 4 * clog2(depth));
    add_width_adapter(f, port.unit, port.beat / port.unit, port.bits / port.unit);
    add_memory(f, 96, 4, false);
    add_memory(f, port.bits, depth, wants_block(port.bits, depth));
  };
  return m;
}

Module mr_parameters() {
  Module m{.name = "mr_parameters"};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t bits = 8 * v["DATA_BYTES"];
    // mr_parameters has two counters: one for the words of constants that have not arrived yet, and one for the clocks
    // after the last word.
    const std::int64_t counters = clog2(v["WORDS"] + 1) + clog2(v["HOPS"] + 5);
    f.add_both("one", 1);
    // The module mr_parameters has two registers of a word each: one for the word behind the buffer, and one
    // for the word that is being cut into pieces.
    f.add_both("bus", bits);
    f.add_lut("counter", counters);
    // Also count the registers for the number of requested words, for the free words of the buffer, and for the
    // buffer's two pointers.
    f.add_ff("counter", counters + 4 * clog2(v["BURST"]));
    // The words of a burst wait in LUTRAM.
    f.exact += simple_dual_port(bits, 2 * v["BURST"], MemoryStyle::kDistributed);
  };
  return m;
}

Module mr_load() {
  Module m{.name = "mr_load", .any_value = {"REST"}};
  m.cost = [](const Values& v, Features& f) {
    const std::int64_t words = ceil_div(v["WIDTH"], 64), own = words * v["LINES"];
    const std::int64_t count = clog2(own + v["REST"] + 1), word = words > 1 ? clog2(words) : 1;
    f.add_lut("one", 1);
    f.add_lut("counter", count);
    f.add_lut("word", words > 1 ? word : 0);
    // A comparator with a constant bound decides which words belong to this table. The comparator needs no logic for
    // the bits below the lowest 1 of the bound.
    f.add_lut("compare", count - std::countr_zero(static_cast<std::uint64_t>(own)));
    f.add_ff("one", 1);
    // A line of constants with several words is collected in a register, which all words enter at the place of the
    // highest word.
    const std::int64_t line = words > 1 ? words * 64 : v["WIDTH"];
    f.add_ff("register", count + word + 64 + line);
  };
  return m;
}

Module mr_weight_reader() {
  Module m{.name = "mr_weight_reader"};
  m.cost = [](const Values& v, Features& f) {
    const LineLayout layout(v);
    // The module's buffer keeps only those bits of a memory word that carry weights.
    const std::int64_t used = layout.shared       ? layout.bus / layout.pitch * v["WIDTH"]
                              : layout.words == 1 ? v["WIDTH"]
                                                  : 8 * layout.bus;
    if (layout.shared && v["BURST"] == 16) {
      Cost memory;
      memory.lut = memory.lutram = static_cast<std::uint64_t>(8 * shared_word_primitives(layout, v["WIDTH"]));
      f.exact += memory;
    } else {
      f.exact += simple_dual_port(used, 2 * v["BURST"], MemoryStyle::kDistributed);
    }
    f.add_both("one", 1);
    f.add_both("bus", used);
    f.add_both("shared", layout.shared ? used : 0);
    f.add_both("long", layout.words > 1 ? 8 * layout.bus * layout.words : 0);
    f.add_both("lines", clog2(v["LINES"]));
  };
  return m;
}

}  // namespace modules
}  // namespace millrace::compiler::generators
