#include "compiler/generators/netlist.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <numeric>

#include "compiler/generators/netlist_builder.hpp"

namespace millrace::compiler::generators {

std::int64_t parameter(const Instance& instance, std::string_view name, std::int64_t otherwise) {
  for (const auto& [key, value] : instance.parameters)
    if (key == name) return value;
  return otherwise;
}

std::uint64_t load_words(const Netlist& netlist) {
  constexpr std::uint64_t kTogether = 8;
  std::uint64_t words = 0;
  for (const auto& table : netlist.loads) words += table.words();
  return (words + kTogether - 1) / kTogether * kTogether;
}

Parameters loader_parameters(const Netlist& netlist) {
  constexpr std::int64_t kBurst = 16;  // memory words
  return {{"DATA_BYTES", static_cast<std::int64_t>(kWeightWordBytes)},
          {"BURST", kBurst},
          {"WORDS", static_cast<std::int64_t>(load_words(netlist))},
          {"HOPS", static_cast<std::int64_t>(netlist.loads.size())}};
}

Parameters load_parameters(const LoadTable& table, std::uint64_t rest) {
  return {{"WIDTH", table.bits},
          {"LINES", static_cast<std::int64_t>(table.lines)},
          {"REST", static_cast<std::int64_t>(rest)}};
}

std::uint64_t weight_pitch(std::uint64_t bits) {
  const std::uint64_t bytes = (bits + 7) / 8;
  return bytes < kWeightWordBytes ? std::bit_ceil(bytes)
                                  : (bytes + kWeightWordBytes - 1) / kWeightWordBytes * kWeightWordBytes;
}

std::uint64_t weight_pass(std::uint64_t bits, std::uint64_t lines) {
  return (lines * weight_pitch(bits) + kWeightWordBytes - 1) / kWeightWordBytes * kWeightWordBytes;
}

std::uint64_t weight_line_cycles(std::uint64_t bits) {
  return std::max<std::uint64_t>(1, weight_pitch(bits) / kWeightWordBytes);
}

std::uint64_t line_cycles(const Instance& instance) {
  if (instance.module != "mr_mvu_streamed") return 1;
  return weight_line_cycles(static_cast<std::uint64_t>(
      parameter(instance, "PE", 2) * parameter(instance, "SIMD", 2) * parameter(instance, "WBITS", 8)));
}

std::string identifier(const std::string& block_name) {
  std::string made;
  for (const char c : block_name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    made += plain ? c : '_';
  }
  if (made.empty() || (made.front() >= '0' && made.front() <= '9') || made.front() == '_')
    made.insert(0, "b");
  return made;
}

void HexLines::put(std::uint64_t value, unsigned bits) {
  for (unsigned i = 0; i < bits; ++i, ++at_) {
    assert(at_ < width_);
    if ((value >> i & 1U) != 0) line_[at_ / 4] = static_cast<std::uint8_t>(line_[at_ / 4] | 1U << (at_ % 4));
  }
}

void HexLines::end_line() {
  for (std::size_t i = line_.size(); i-- > 0;) text_ += "0123456789abcdef"[line_[i]];
  text_ += '\n';
  std::fill(line_.begin(), line_.end(), std::uint8_t{0});
  at_ = 0;
}

StreamIndex NetlistBuilder::make_stream(std::string name, Output output) {
  netlist_.streams.push_back({std::move(name), output.lanes, output.bits, output.beats});
  return static_cast<StreamIndex>(netlist_.streams.size() - 1);
}

StreamIndex NetlistBuilder::input(std::uint32_t lanes, std::uint32_t bits, std::uint64_t elements) {
  assert(elements % lanes == 0);
  const StreamIndex made =
      make_stream(prefix_ + "_in" + std::to_string(netlist_.inputs.size()), {lanes, bits, elements / lanes});
  netlist_.inputs.push_back(made);
  return made;
}

StreamIndex NetlistBuilder::add(const char* module, const std::string& suffix, Parameters parameters,
                                const std::vector<StreamIndex>& inputs, Output output,
                                std::vector<std::pair<std::string, std::string>> files) {
  const std::string name = prefix_ + "_" + suffix;
  const StreamIndex made = make_stream(name, output);
  netlist_.units.push_back({.instance = {module, name, std::move(parameters)},
                            .files = std::move(files),
                            .inputs = inputs,
                            .outputs = {made},
                            .block = block_});
  return made;
}

StreamIndex NetlistBuilder::add_written(const char* model, const std::string& suffix, std::string source,
                                        Parameters parameters, const std::vector<StreamIndex>& inputs,
                                        Output output) {
  const StreamIndex made = add(model, suffix, std::move(parameters), inputs, output);
  netlist_.units.back().source = std::move(source);
  return made;
}

StreamIndex NetlistBuilder::add_output(const std::string& suffix, Output output) {
  const StreamIndex made = make_stream(prefix_ + "_" + suffix, output);
  netlist_.units.back().outputs.push_back(made);
  return made;
}

std::vector<StreamIndex> NetlistBuilder::split(const std::string& suffix, StreamIndex from,
                                               std::uint32_t parts) {
  const Stream whole = stream(from);
  const std::string name = prefix_ + "_" + suffix;
  std::vector<StreamIndex> made;
  for (std::uint32_t i = 0; i < parts; ++i)
    made.push_back(make_stream(name + std::to_string(i), {whole.lanes / parts, whole.bits, whole.beats}));
  const auto width = static_cast<std::int64_t>(whole.width() / parts);
  netlist_.units.push_back({.instance = {"mr_split", name, {{"WIDTH", width}, {"N", parts}}},
                            .inputs = {from},
                            .outputs = made,
                            .block = block_});
  return made;
}

StreamIndex NetlistBuilder::join(const std::string& suffix, const std::vector<StreamIndex>& from) {
  const Stream part = stream(from.front());
  const auto parts = static_cast<std::uint32_t>(from.size());
  return add("mr_join", suffix, {{"WIDTH", static_cast<std::int64_t>(part.width())}, {"N", parts}}, from,
             {part.lanes * parts, part.bits, part.beats});
}

StreamIndex NetlistBuilder::adapt(const std::string& suffix, StreamIndex from, std::uint32_t lanes) {
  const Stream before = stream(from);
  if (before.lanes == lanes) return from;
  const std::uint64_t elements = before.lanes * before.beats;
  assert(elements % lanes == 0);
  return add("mr_width_adapter", suffix, adapter_parameters(before.lanes, lanes, before.bits), {from},
             {lanes, before.bits, elements / lanes});
}

StreamIndex NetlistBuilder::wires(Wiring wiring, const std::string& suffix, StreamIndex from, Output output) {
  const std::string name = prefix_ + "_" + suffix;
  const StreamIndex made = make_stream(name, output);
  netlist_.units.push_back({{"", name, {}}, wiring, {}, {from}, {made}, {}, block_});
  return made;
}

void NetlistBuilder::load(const std::string& what, const std::vector<std::string>& suffixes,
                          std::uint64_t bits, std::uint64_t lines, std::string content) {
  LoadTable table{
      prefix_ + "_" + what + "_load", {}, static_cast<std::uint32_t>(bits), lines, std::move(content)};
  for (const auto& suffix : suffixes) table.units.push_back(prefix_ + "_" + suffix);
  netlist_.loads.push_back(std::move(table));
}

Netlist NetlistBuilder::finish(std::vector<StreamIndex> outputs) {
  netlist_.outputs = std::move(outputs);
  return std::move(netlist_);
}

Parameters adapter_parameters(std::uint32_t from_lanes, std::uint32_t to_lanes, std::uint32_t bits) {
  const std::uint32_t shared = std::gcd(from_lanes, to_lanes);
  return {{"LANE", std::int64_t{bits} * shared},
          {"S_LANES", from_lanes / shared},
          {"M_LANES", to_lanes / shared}};
}

unsigned signed_bits(std::int64_t lowest, std::int64_t highest) {
  // A negative number x needs as many bits as its complement ~x, and a sign bit.
  const auto bits = [](std::int64_t x) {
    return static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(x < 0 ? ~x : x))) + 1;
  };
  return std::max(bits(lowest), bits(highest));
}

}  // namespace millrace::compiler::generators
