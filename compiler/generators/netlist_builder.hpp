// Puts a block's units together. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::generators {

/// Lines of $readmemh, a field at a time from the low bits up.
class HexLines {
 public:
  /// Lines of `width` bits.
  explicit HexLines(std::uint64_t width) : width_(width), line_((width + 3) / 4, 0) {}
  /// The next field: the low `bits` (at most 64) of `value`.
  void put(std::uint64_t value, unsigned bits);
  void end_line();
  std::string take() { return std::move(text_); }

 private:
  [[maybe_unused]] std::uint64_t width_;  // for an assertion
  std::vector<std::uint8_t> line_;        // a digit each, lowest first
  std::uint64_t at_ = 0;
  std::string text_;
};

class NetlistBuilder {
 public:
  /// Names begin with `prefix`; units belong to `block`.
  NetlistBuilder(std::string prefix, std::int32_t block, bool memories)
      : prefix_(std::move(prefix)), block_(block), memories_(memories) {}

  /// Whether memory files are wanted: their content is only then worth making.
  bool memories() const { return memories_; }
  const std::string& prefix() const { return prefix_; }

  StreamIndex input(std::uint32_t lanes, std::uint32_t bits, std::uint64_t elements);
  const Stream& stream(StreamIndex index) const { return netlist_.streams[index]; }

  struct Output {
    std::uint32_t lanes = 1, bits = 8;
    std::uint64_t beats = 0;
  };
  /// A unit `<prefix>_<suffix>` with one output stream of the same name.
  StreamIndex add(const char* module, const std::string& suffix, Parameters parameters,
                  const std::vector<StreamIndex>& inputs, Output output,
                  std::vector<std::pair<std::string, std::string>> files = {});
  /// As add(), of the module `source` that is written here; `model` is what the cost model calls it.
  StreamIndex add_written(const char* model, const std::string& suffix, std::string source,
                          Parameters parameters, const std::vector<StreamIndex>& inputs, Output output);
  void reader(WeightReader made) { netlist_.readers.push_back(std::move(made)); }
  void source(std::string module, std::string text) {
    netlist_.sources.push_back({std::move(module), std::move(text)});
  }
  /// mr_split: `parts` streams of an equal share of the lanes each.
  std::vector<StreamIndex> split(const std::string& suffix, StreamIndex from, std::uint32_t parts);
  StreamIndex join(const std::string& suffix, const std::vector<StreamIndex>& from);
  /// The stream with `lanes` a beat: through a width adapter, or itself.
  StreamIndex adapt(const std::string& suffix, StreamIndex from, std::uint32_t lanes);
  StreamIndex wires(Wiring wiring, const std::string& suffix, StreamIndex from, Output output);
  void file(std::string name, std::string content) {
    netlist_.files.push_back({std::move(name), std::move(content)});
  }
  /// Lines for the units `<prefix>_<suffix>` of these suffixes, named `<prefix>_<what>_load`. `lines` may be
  /// empty where memories are not wanted.
  void load(const std::string& what, const std::vector<std::string>& suffixes, std::uint64_t bits,
            std::uint64_t lines, std::string content);
  Netlist finish(StreamIndex output);

 private:
  StreamIndex make_stream(std::string name, Output output);

  std::string prefix_;
  std::int32_t block_;
  bool memories_;
  Netlist netlist_;
};

/// mr_width_adapter's parameters between two lane counts of `bits`.
Parameters adapter_parameters(std::uint32_t from_lanes, std::uint32_t to_lanes, std::uint32_t bits);

/// Bits of the smallest two's complement number that holds both.
unsigned signed_bits(std::int64_t lowest, std::int64_t highest);

}  // namespace millrace::compiler::generators
