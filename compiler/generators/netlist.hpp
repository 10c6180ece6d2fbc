// What a partition's hardware consists of: units (instances of the library's modules, and bare wires) joined
// by streams. Plain data: generators make a piece of it for a block, design.hpp puts the pieces together,
// timing.hpp plays it beat by beat, emit/rtl writes it as SystemVerilog.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/generators/instance.hpp"

namespace millrace::compiler::generators {

/// A valid/ready stream. A frame is a tensor's elements in row-major order, `lanes` a beat, lane 0 in the low
/// bits; `lanes * beats` elements a frame.
struct Stream {
  std::string name;  // an identifier, unique in its netlist
  std::uint32_t lanes = 1;
  std::uint32_t bits =
      8;  // an element; two's complement where it is signed, 1 for bipolar (1 is +1, 0 is -1)
  std::uint64_t beats = 0;  // a frame

  std::uint64_t width() const { return std::uint64_t{lanes} * bits; }
  bool operator==(const Stream&) const = default;
};

using StreamIndex = std::uint32_t;

/// Wires only: no cost, no cycle; the handshake passes through.
enum class Wiring : std::uint8_t {
  kNone,        // a unit that is an instance
  kZeroExtend,  // each lane widened with zeros
  kSignExtend,  // each lane widened with its sign
  kInterleave   // 2n lanes a0..an-1 b0..bn-1 become n lanes {a, b}, a in the high bits
};

/// Streams are connected in the order of the module's ports: s_ and m_; s0_ s1_ of mr_add and mr_concat; the
/// N parts of mr_fork, mr_split and mr_join, part 0 in the low bits.
struct Unit {
  Instance instance;  // wires have a name and no module
  Wiring wiring = Wiring::kNone;
  std::vector<std::pair<std::string, std::string>>
      files;  // string parameter -> name: {"WFILE", "conv_5_weights.hex"}
  std::vector<StreamIndex> inputs, outputs;
  std::string source;  // its module is one of the netlist's sources, not of the library; no parameters then
  std::int32_t block = -1;  // index into the program's blocks; -1: it joins blocks (adapters, FIFOs, forks)
  bool operator==(const Unit&) const = default;
};

/// What $readmemh reads: one hexadecimal number a line. Names are relative to the folder of the
/// SystemVerilog.
struct MemoryFile {
  std::string name;
  std::string content;
  bool operator==(const MemoryFile&) const = default;
};

/// Constants that are loaded, on their way to the l_ ports of one unit or of several that hold the same
/// (mr_load).
struct LoadTable {
  std::string name;                // of the instance: "conv_5_weights_load"
  std::vector<std::string> units;  // instances
  std::uint32_t bits = 1;          // of a line
  std::uint64_t lines = 0;
  std::string content;  // one hexadecimal number a line; empty where only costs are wanted
  std::uint64_t words() const { return lines * ((bits + 63) / 64); }  // 64 bits each
  bool operator==(const LoadTable&) const = default;
};

/// A module written for this netlist, in a file <module>.sv.
struct Source {
  std::string module;
  std::string text;
  bool operator==(const Source&) const = default;
};

/// Fetches a unit's weights from the card's memory, pass after pass (mr_weight_reader).
struct WeightReader {
  Instance instance;
  std::string unit;                   // the instance that takes the lines
  std::uint64_t bytes_per_frame = 0;  // of memory
  std::string content;                // as LoadTable's
  bool operator==(const WeightReader&) const = default;
};

/// Of memory, as mr_weight_reader's ports are wide.
inline constexpr std::uint64_t kWeightWordBytes = 64;

/// Bytes from a line of `bits` to the next, in memory.
std::uint64_t weight_pitch(std::uint64_t bits);
/// Bytes of `lines` of them: whole words.
std::uint64_t weight_pass(std::uint64_t bits, std::uint64_t lines);
/// Cycles in which the next line comes, where a word a cycle does.
std::uint64_t weight_line_cycles(std::uint64_t bits);

/// Units in topological order; every stream has one writer and one reader, or is an input or output.
struct Netlist {
  std::vector<Stream> streams;
  std::vector<Unit> units;
  std::vector<MemoryFile> files;  // in order of use; empty where only costs are wanted
  std::vector<LoadTable> loads;   // in the order in which they are loaded
  std::vector<Source> sources;    // in order of use; empty where only costs are wanted
  std::vector<WeightReader> readers;
  std::vector<StreamIndex> inputs, outputs;  // in the order of the block's, or the partition's
  bool operator==(const Netlist&) const = default;
};

/// 64-bit words of all that is loaded, padded to whole words of the memory they come from (64 bytes).
std::uint64_t load_words(const Netlist& netlist);

/// Of the mr_parameters that loads it all, beside the shell: as emit writes it. There is none where nothing
/// is loaded.
Parameters loader_parameters(const Netlist& netlist);

/// Of the mr_load that `rest` further words pass.
Parameters load_parameters(const LoadTable& table, std::uint64_t rest);

/// The value of a parameter of an instance, or `otherwise`.
std::int64_t parameter(const Instance& instance, std::string_view name, std::int64_t otherwise);

/// Folded PE by SIMD: its weights from a table, or streamed.
inline bool is_matrix_unit(const Instance& instance) {
  return instance.module == "mr_mvu" || instance.module == "mr_mvu_streamed";
}

/// Of a matrix unit: from one line of weights to the next, at best.
std::uint64_t line_cycles(const Instance& instance);

/// A block's name as the beginning of SystemVerilog names: letters, digits and _, not starting with a digit.
std::string identifier(const std::string& block_name);

}  // namespace millrace::compiler::generators
