// The hardware of a partition as plain data: units (instances of the library's modules, and wires) connected by
// streams. A generator makes the netlist of one block. design.hpp joins the blocks' netlists, timing.hpp simulates the
// joined netlist clock by clock, and emit/rtl writes it as SystemVerilog.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::compiler::generators {

/// The integer parameters of an instance by name, in the order of the module's declaration. A parameter that is left
/// out has the module's default. The list has no names of memory files, because a cost does not depend on them.
using Parameters = std::vector<std::pair<std::string, std::int64_t>>;

/// An instance of a module of kernels/rtl.
struct Instance {
  std::string module;  // "mr_mvu"
  std::string name;    // unique in its top module: "conv_5_mvu"
  Parameters parameters;
  bool operator==(const Instance&) const = default;
};

/// A valid/ready stream. A frame is a tensor's elements in row-major order. A beat has `lanes` elements, lane 0 in the
/// low bits, so a frame has `lanes * beats` elements.
struct Stream {
  std::string name;  // an identifier, unique in its netlist
  std::uint32_t lanes = 1;
  std::uint32_t bits = 8;   // bits of an element: two's complement if signed; 1 if bipolar (1 is +1, 0 is -1)
  std::uint64_t beats = 0;  // beats per frame

  std::uint64_t width() const { return std::uint64_t{lanes} * bits; }
  bool operator==(const Stream&) const = default;
};

using StreamIndex = std::uint32_t;

/// A unit that consists of wires. It costs nothing and takes no cycle, and the handshake signals pass through.
enum class Wiring : std::uint8_t {
  kNone,        // the unit is no wires but an instance of a module
  kZeroExtend,  // widens each lane with zeros
  kSignExtend,  // widens each lane with its sign
  kInterleave   // turns 2n lanes a0..an-1 b0..bn-1 into n lanes {a, b}, with a in the high bits
};

/// An instance of a module, or wires. `inputs` and `outputs` are in the order of the module's ports. If N streams share
/// a port, stream 0 has the low bits.
struct Unit {
  Instance instance;  // a unit of wires has a name but no module
  Wiring wiring = Wiring::kNone;
  /// Memory files: pairs of a string parameter and a file name, for example {"WFILE", "conv_5_weights.hex"}.
  std::vector<std::pair<std::string, std::string>> files = {};
  std::vector<StreamIndex> inputs = {}, outputs = {};
  /// The module's name if the module is one of the netlist's `sources`; it then has no parameters. Otherwise empty.
  std::string source = {};
  /// Index into the program's blocks; -1 for units that join blocks (adapters, FIFOs, forks).
  std::int32_t block = -1;
  bool operator==(const Unit&) const = default;
};

/// A file for $readmemh, with one hexadecimal number per line. Its name is relative to the folder of the SystemVerilog.
struct MemoryFile {
  std::string name;
  std::string content;
  bool operator==(const MemoryFile&) const = default;
};

/// Constants that are loaded after the FPGA is programmed. An mr_load instance sends them to the l_ ports of `units`.
struct LoadTable {
  std::string name;                // name of the mr_load instance: "conv_5_weights_load"
  std::vector<std::string> units;  // names of instances
  std::uint32_t bits = 1;          // width of a line
  std::uint64_t lines = 0;
  std::string content;  // one hexadecimal number per line; empty if only costs are wanted
  std::uint64_t words() const { return lines * ((bits + 63) / 64); }  // 64-bit words
  bool operator==(const LoadTable&) const = default;
};

/// A module that was written for this netlist, in a file named <module>.sv.
struct Source {
  std::string module;
  std::string text;
  bool operator==(const Source&) const = default;
};

/// An mr_weight_reader instance. For each vector, it reads all weights of a unit from the card's memory again.
struct WeightReader {
  Instance instance;
  std::string unit;                   // name of the instance that receives the lines
  std::uint64_t bytes_per_frame = 0;  // bytes of weights read from the card's memory
  std::string content;                // one hexadecimal number per line; empty if only costs are wanted
  bool operator==(const WeightReader&) const = default;
};

/// The width of mr_weight_reader's memory port.
inline constexpr std::uint64_t kWeightWordBytes = 64;

/// Returns the distance in memory between the beginnings of two lines of `bits` bits, in bytes.
std::uint64_t weight_pitch(std::uint64_t bits);
/// Returns how many bytes `lines` lines of `bits` bits take in memory, rounded up to whole memory words.
std::uint64_t weight_pass(std::uint64_t bits, std::uint64_t lines);
/// Returns the cycles between two lines of `bits` bits if a memory word arrives every cycle.
std::uint64_t weight_line_cycles(std::uint64_t bits);

/// Units are in topological order. A stream without a writer is an input, and a stream without a reader is an output.
struct Netlist {
  std::vector<Stream> streams;
  std::vector<Unit> units;
  std::vector<MemoryFile> files;  // in order of use; empty if only costs are wanted
  std::vector<LoadTable> loads;   // in the order in which they are loaded
  std::vector<Source> sources;    // in order of use; empty if only costs are wanted
  std::vector<WeightReader> readers;
  std::vector<StreamIndex> inputs, outputs;  // in the order of the block's or partition's ports
  bool operator==(const Netlist&) const = default;
};

/// Returns how many 64-bit words all loaded constants take, padded to whole memory words of 64 bytes.
std::uint64_t load_words(const Netlist& netlist);

/// Returns the parameters of mr_parameters, which loads all constants; no parameters if no constants are loaded.
Parameters loader_parameters(const Netlist& netlist);

/// Returns the parameters of a table's mr_load, on whose stream `rest` more words follow the table's own words.
Parameters load_parameters(const LoadTable& table, std::uint64_t rest);

/// Returns the value of an instance's parameter, or `otherwise` if the instance does not set it.
std::int64_t parameter(const Instance& instance, std::string_view name, std::int64_t otherwise);

/// Whether an instance is a matrix-vector unit, which computes PE outputs by SIMD inputs at once.
inline bool is_matrix_unit(const Instance& instance) {
  return instance.module == "mr_mvu" || instance.module == "mr_mvu_streamed";
}

/// Returns the minimum cycles of a matrix-vector unit from one line of weights to the next.
std::uint64_t line_cycles(const Instance& instance);

/// Turns a block's name into a prefix for SystemVerilog names: letters, digits and _, starting with a letter.
std::string identifier(const std::string& block_name);

}  // namespace millrace::compiler::generators
