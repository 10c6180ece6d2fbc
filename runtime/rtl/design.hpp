// The generated SystemVerilog of a partition as a deployment holds it: the folder rtl/<partition>/. Its
// design.json (compiler/emit/rtl/README.md) describes ports and streams.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::runtime::rtl {

/// A port of the dataflow module: <name>_valid, <name>_ready, <name>_data.
struct Port {
  std::string name;  // "in0"
  std::string tensor;
  kernels::ElementType::Kind kind = kernels::ElementType::Kind::kSigned;
  std::uint32_t lanes = 0, bits = 0;  // elements per beat, bits per element
  std::uint64_t beats = 0;            // per frame

  std::uint64_t beat_bits() const { return std::uint64_t{lanes} * bits; }
  std::uint64_t elements() const { return lanes * beats; }
};

/// A stream that passes through a FIFO.
struct Stream {
  std::string name;
  std::string fifo;              // the instance of mr_fifo in the dataflow module
  std::uint64_t depth = 0;       // its DEPTH; the FIFO holds one beat more
  std::uint64_t high_water = 0;  // predicted: the most beats held at once
};

/// A block that multiplies in DSP slices, and the work of its multipliers in one frame.
struct Layer {
  std::string name;                        // of the block
  std::uint64_t multiply_accumulates = 0;  // per frame, without those on padding and unused lanes
  std::uint64_t busy_cycles = 0;           // predicted: cycles per frame in which its multipliers work
  std::uint64_t dsp = 0;                   // predicted: slices of the whole block
  std::vector<std::string> units;          // its matrix-vector units (equal copies, usually one)
};

struct Cycles {
  std::uint64_t interval = 0;      // between the last output beats of successive frames
  std::uint64_t latency = 0;       // first input beat to last output beat of a lone frame
  std::uint64_t first_output = 0;  // first input beat to first output beat
  std::uint64_t passage = 0;       // a lone frame: first beat into any card to last output beat; 0 if unknown
};

struct Design {
  std::string partition;
  std::string dataflow;  // module
  double clock_mhz = 0;
  std::string digest;  // sha256 of all other files of the folder
  std::vector<Port> inputs, outputs;
  std::vector<Stream> streams;
  std::vector<Layer> layers;  // empty if design.json names no blocks
  Cycles predicted;
  // Loaded constants: the number of 64-bit words in their stream, and of hops on its way. 0 if all are baked.
  std::uint64_t load_words = 0, load_hops = 0;
  // Weights that are read from memory during a frame: their size, and the AXI4 ports that read them. 0 and
  // none if no weights are streamed.
  std::uint64_t streamed_bytes = 0;
  std::vector<std::string> weight_ports;  // "weights0"
};

/// Parses design.json. The text is untrusted: sizes, names and paths are checked. kCorrupt: names the bad
/// key. kUnsupported: another schema.
Result<Design> parse_design(std::string_view json);

/// A partition's folder, read as a whole.
struct Source {
  Design design;
  std::string design_json;                   // the text of design.json
  std::map<std::string, std::string> files;  // all but design.json: path in the folder -> content
};

/// Reads `<deployment>/rtl/<partition>`. kNotFound: the deployment has no such folder. kCorrupt: the files do
/// not match the digest in design.json; names the folder.
Result<Source> read_source(const std::filesystem::path& deployment, const std::string& partition);

}  // namespace millrace::runtime::rtl
