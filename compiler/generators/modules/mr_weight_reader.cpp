#include <algorithm>
#include <bit>

#include "compiler/generators/modules/parts.hpp"
#include "compiler/generators/timing.hpp"

namespace millrace::compiler::generators {
namespace {

/// How lines lie in words of memory: several in a word, or a line in one or several words.
struct LineLayout {
  explicit LineLayout(const Values& v)
      : bus(v["DATA_BYTES"]),
        bytes(ceil_div(v["WIDTH"], 8)),
        pitch(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes)))),
        shared(pitch < bus),
        words(shared ? 1 : ceil_div(bytes, bus)) {}
  std::int64_t bus, bytes, pitch;  // bytes of a word, of a line, and from a line to the next in a shared word
  bool shared;
  std::int64_t words;  // of a line
};

/// RAM32M16 takes 14 neighbouring bits of the whole word; a line may begin amid them.
std::int64_t shared_word_primitives(const LineLayout& layout, std::int64_t width) {
  std::int64_t primitives = 0, next = 0;
  for (std::int64_t line = 0; line < layout.bus / layout.pitch; ++line) {
    const std::int64_t begin = line * layout.pitch * 8, first = begin / 14, last = (begin + width - 1) / 14;
    primitives += std::max<std::int64_t>(0, last + 1 - std::max(first, next));
    next = std::max(next, last + 1);
  }
  return primitives;
}

void cost(const Values& v, Features& f) {
  const LineLayout layout(v);
  // The bits of a word that no line uses are not kept.
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
}

}  // namespace

ReaderTiming reader_timing(const Instance& reader) {
  const Values v = Values::of(*find_module("mr_weight_reader"), reader.parameters).value();
  const LineLayout layout(v);
  const std::int64_t a_word = layout.shared ? layout.bus / layout.pitch : 1;
  const std::int64_t words = layout.shared ? ceil_div(v["LINES"], a_word) : v["LINES"] * layout.words;
  // A burst is asked for every other cycle at most; one that 4 KiB divides counts as one here.
  const std::int64_t bursts = ceil_div(words, v["BURST"]);
  const auto cycles = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  return {cycles(layout.words), cycles(std::max(words * a_word, 2 * bursts)),
          cycles(5 + (layout.shared      ? 1
                      : layout.words > 1 ? layout.words
                                         : 0))};
}

namespace modules {

Module mr_weight_reader() {
  return {.name = "mr_weight_reader", .cost = cost};
}

}  // namespace modules
}  // namespace millrace::compiler::generators
