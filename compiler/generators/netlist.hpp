// The hardware of a partition: units (instances of the library's modules, and wires) connected by streams.
// Plain data: a generator makes the netlist of one block, design.hpp joins them, timing.hpp plays the whole
// one clock by clock, and emit/rtl writes it as SystemVerilog.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::compiler::generators {

/// The integer parameters of a module by name, in the order of the module's declaration; those left out have
/// the module's defaults. Names of memory files are not among them: a cost does not depend on them.
using Parameters = std::vector<std::pair<std::string, std::int64_t>>;

/// An instance of a module of kernels/rtl.
struct Instance {
  std::string module;  // "mr_mvu"
  std::string name;    // unique in its top: "conv_5_mvu"
  Parameters parameters;
  bool operator==(const Instance&) const = default;
};

/// A valid/ready stream. A frame is a tensor's elements in row-major order, `lanes` a beat, lane 0 in the low
/// bits; `lanes * beats` elements a frame.
struct Stream {
  std::string name;  // an identifier, unique in its netlist
  std::uint32_t lanes = 1;
  std::uint32_t bits = 8;   // of an element: two's complement if signed; 1 if bipolar (1 is +1, 0 is -1)
  std::uint64_t beats = 0;  // a frame

  std::uint64_t width() const { return std::uint64_t{lanes} * bits; }
  bool operator==(const Stream&) const = default;
};

using StreamIndex = std::uint32_t;

/// A unit without logic: it costs nothing and takes no cycle, and the handshake passes through.
enum class Wiring : std::uint8_t {
  kNone,        // not wires but an instance
  kZeroExtend,  // each lane widened with zeros
  kSignExtend,  // each lane widened with its sign
  kInterleave   // 2n lanes a0..an-1 b0..bn-1 become n lanes {a, b}, a in the high bits
};

/// Streams are in the order of the module's ports: s and m; s0 and s1 of a module with two inputs; N streams
/// of a bundled port, part 0 in the low bits.
struct Unit {
  Instance instance;  // wires have a name and no module
  Wiring wiring = Wiring::kNone;
  /// String parameter -> name: {"WFILE", "conv_5_weights.hex"}.
  std::vector<std::pair<std::string, std::string>> files = {};
  std::vector<StreamIndex> inputs = {}, outputs = {};
  /// Its module's name, if that is one of the netlist's sources and has no parameters.
  std::string source = {};
  std::int32_t block = -1;  // index into the program's blocks; -1: it joins blocks (adapters, FIFOs, forks)
  bool operator==(const Unit&) const = default;
};

/// A file for $readmemh: one hexadecimal number a line. Names are relative to the folder of the
/// SystemVerilog.
struct MemoryFile {
  std::string name;
  std::string content;
  bool operator==(const MemoryFile&) const = default;
};

/// Constants that are loaded after programming. An mr_load sends them to the l_ ports of the units that hold
/// them.
struct LoadTable {
  std::string name;                // of the instance: "conv_5_weights_load"
  std::vector<std::string> units;  // instances
  std::uint32_t bits = 1;          // of a line
  std::uint64_t lines = 0;
  std::string content;  // one hexadecimal number a line; empty if only costs are wanted
  std::uint64_t words() const { return lines * ((bits + 63) / 64); }  // 64 bits each
  bool operator==(const LoadTable&) const = default;
};

/// A module that was written for this netlist; its file is <module>.sv.
struct Source {
  std::string module;
  std::string text;
  bool operator==(const Source&) const = default;
};

/// An mr_weight_reader, which fetches a unit's weights from the card's memory, pass after pass.
struct WeightReader {
  Instance instance;
  std::string unit;                   // the instance that takes the lines
  std::uint64_t bytes_per_frame = 0;  // of memory
  std::string content;                // as LoadTable's
  bool operator==(const WeightReader&) const = default;
};

/// The width of mr_weight_reader's memory port.
inline constexpr std::uint64_t kWeightWordBytes = 64;

/// Bytes in memory from the beginning of a line of `bits` to that of the next.
std::uint64_t weight_pitch(std::uint64_t bits);
/// Bytes that `lines` such lines take: whole words.
std::uint64_t weight_pass(std::uint64_t bits, std::uint64_t lines);
/// Cycles between lines, if a word comes every cycle.
std::uint64_t weight_line_cycles(std::uint64_t bits);

/// Units are in topological order. Every stream has one writer and one reader, or is an input or output.
struct Netlist {
  std::vector<Stream> streams;
  std::vector<Unit> units;
  std::vector<MemoryFile> files;  // in order of use; empty if only costs are wanted
  std::vector<LoadTable> loads;   // in the order in which they are loaded
  std::vector<Source> sources;    // in order of use; empty if only costs are wanted
  std::vector<WeightReader> readers;
  std::vector<StreamIndex> inputs, outputs;  // in the order of the block, or of the partition
  bool operator==(const Netlist&) const = default;
};

/// The 64-bit words of all loaded constants, padded to whole words of memory (64 bytes).
std::uint64_t load_words(const Netlist& netlist);

/// The parameters of the one mr_parameters, which loads all constants. A partition that loads nothing has
/// none.
Parameters loader_parameters(const Netlist& netlist);

/// The parameters of the table's mr_load; `rest` words follow the table's own on the stream.
Parameters load_parameters(const LoadTable& table, std::uint64_t rest);

/// The value of a parameter of an instance, or `otherwise`.
std::int64_t parameter(const Instance& instance, std::string_view name, std::int64_t otherwise);

/// Whether a unit multiplies a matrix, folded PE by SIMD.
inline bool is_matrix_unit(const Instance& instance) {
  return instance.module == "mr_mvu" || instance.module == "mr_mvu_streamed";
}

/// The least cycles of a matrix unit from one line of weights to the next.
std::uint64_t line_cycles(const Instance& instance);

/// A block's name made fit to begin SystemVerilog names: letters, digits and _, no digit first.
std::string identifier(const std::string& block_name);

}  // namespace millrace::compiler::generators
