// Builds the netlist of a block. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::generators {

/// Writes lines for $readmemh field by field, starting at the low bits of each line.
class HexLines {
 public:
  explicit HexLines(std::uint64_t width) : width_(width), line_((width + 3) / 4, 0) {}
  /// Appends a field: the low `bits` (at most 64) bits of `value`.
  void put(std::uint64_t value, unsigned bits);
  void end_line();
  std::string take() { return std::move(text_); }

 private:
  [[maybe_unused]] std::uint64_t width_;  // only for an assertion
  std::vector<std::uint8_t> line_;        // one hexadecimal digit per entry, lowest digit first
  std::uint64_t at_ = 0;
  std::string text_;
};

class NetlistBuilder {
 public:
  /// All names begin with `prefix`. All units belong to `block`. Memory files get content only if `memories` is set.
  NetlistBuilder(std::string prefix, std::int32_t block, bool memories)
      : prefix_(std::move(prefix)), block_(block), memories_(memories) {}

  /// Whether memory files need content.
  bool memories() const { return memories_; }
  const std::string& prefix() const { return prefix_; }

  StreamIndex input(std::uint32_t lanes, std::uint32_t bits, std::uint64_t elements);
  const Stream& stream(StreamIndex index) const { return netlist_.streams[index]; }

  struct Output {
    std::uint32_t lanes = 1, bits = 8;
    std::uint64_t beats = 0;
  };
  /// Adds a unit `<prefix>_<suffix>` with one output stream, which has the same name.
  StreamIndex add(const char* module, const std::string& suffix, Parameters parameters,
                  const std::vector<StreamIndex>& inputs, Output output,
                  std::vector<std::pair<std::string, std::string>> files = {});
  /// Adds one more output stream, `<prefix>_<suffix>`, to the unit that was added last.
  StreamIndex add_output(const std::string& suffix, Output output);
  /// Like add(), for a module `source` that is written for this block. `model` is the module's name in the cost model.
  StreamIndex add_written(const char* model, const std::string& suffix, std::string source,
                          Parameters parameters, const std::vector<StreamIndex>& inputs, Output output);
  void reader(WeightReader made) { netlist_.readers.push_back(std::move(made)); }
  void source(std::string module, std::string text) {
    netlist_.sources.push_back({std::move(module), std::move(text)});
  }
  /// Splits a stream into `parts` streams with equal shares of its lanes.
  std::vector<StreamIndex> split(const std::string& suffix, StreamIndex from, std::uint32_t parts);
  StreamIndex join(const std::string& suffix, const std::vector<StreamIndex>& from);
  /// Returns a stream with `lanes` lanes: `from` itself, or the output of a new width adapter if the lanes differ.
  StreamIndex adapt(const std::string& suffix, StreamIndex from, std::uint32_t lanes);
  StreamIndex wires(Wiring wiring, const std::string& suffix, StreamIndex from, Output output);
  void file(std::string name, std::string content) {
    netlist_.files.push_back({std::move(name), std::move(content)});
  }
  /// Adds a table `<prefix>_<what>_load` whose lines are loaded into the units `<prefix>_<suffix>`. `content` may be
  /// empty if only costs are needed.
  void load(const std::string& what, const std::vector<std::string>& suffixes, std::uint64_t bits,
            std::uint64_t lines, std::string content);
  Netlist finish(StreamIndex output) { return finish(std::vector{output}); }
  Netlist finish(std::vector<StreamIndex> outputs);

 private:
  StreamIndex make_stream(std::string name, Output output);

  std::string prefix_;
  std::int32_t block_;
  bool memories_;
  Netlist netlist_;
};

/// Returns the parameters of an mr_width_adapter between two numbers of lanes.
Parameters adapter_parameters(std::uint32_t from_lanes, std::uint32_t to_lanes, std::uint32_t bits);

/// Returns the width of the smallest two's complement number that can represent both values.
unsigned signed_bits(std::int64_t lowest, std::int64_t highest);

}  // namespace millrace::compiler::generators
