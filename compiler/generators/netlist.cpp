#include "compiler/generators/netlist.hpp"

#include <algorithm>
#include <bit>

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
  constexpr std::int64_t kBurst = 16;  // words of memory
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

}  // namespace millrace::compiler::generators
