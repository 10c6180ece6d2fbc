// The generated SystemVerilog of a partition as a deployment holds it: rtl/<partition>/, whose design.json
// (compiler/emit/rtl/README.md) says what its ports and streams are.
#pragma once

#include <cstdint>
#include <filesystem>
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
  std::uint32_t lanes = 0, bits = 0;  // elements a beat, bits an element
  std::uint64_t beats = 0;            // a frame

  std::uint64_t beat_bits() const { return std::uint64_t{lanes} * bits; }
  std::uint64_t elements() const { return lanes * beats; }
};

/// A stream that passes a FIFO.
struct Stream {
  std::string name;
  std::string fifo;              // instance of mr_fifo in the dataflow module
  std::uint64_t depth = 0;       // its DEPTH; it holds one beat more
  std::uint64_t high_water = 0;  // predicted: most beats held
};

/// A block with multipliers in DSP slices: what those do in a frame.
struct Layer {
  std::string name;                        // the block's
  std::uint64_t multiply_accumulates = 0;  // of a frame, those that count: none with padding or unused lanes
  std::uint64_t busy_cycles = 0;           // predicted: cycles of a frame in which its multipliers work
  std::uint64_t dsp = 0;                   // predicted: slices of the whole block
  std::vector<std::string> units;  // its matrix-vector units in the dataflow module: equal copies, mostly one
};

struct Cycles {
  std::uint64_t interval = 0;      // between the last output beats of successive frames
  std::uint64_t latency = 0;       // first input beat to last output beat of a lone frame
  std::uint64_t first_output = 0;  // first input beat to first output beat
  std::uint64_t passage = 0;  // a lone frame's first beat into any card to last output beat; 0: not known
};

struct Design {
  std::string partition;
  std::string dataflow;  // module
  double clock_mhz = 0;
  std::string digest;              // sha256 of all other files of the folder
  std::vector<std::string> files;  // SystemVerilog, in the order tools take; paths in the folder
  std::vector<Port> inputs, outputs;
  std::vector<Stream> streams;
  std::vector<Layer> layers;  // empty where design.json names no blocks
  Cycles predicted;
  // Constants that are loaded: 64-bit words of their stream, and stops on its way; 0 where all are baked.
  std::uint64_t load_words = 0, load_hops = 0;
  // Weights that are read from memory as they are used, and the AXI4 read ports that do; 0 and none where
  // there are no such.
  std::uint64_t streamed_bytes = 0;
  std::vector<std::string> weight_ports;  // "weights0"
};

/// design.json. Anything may stand in it: sizes, names and paths are checked. kCorrupt names the key;
/// kUnsupported: another schema.
Result<Design> parse_design(std::string_view json);

/// A file of the folder, as it was when the folder was read.
struct SourceFile {
  std::string path;  // in the folder
  std::string content;
};

/// A partition's folder, read whole.
struct Source {
  Design design;
  std::string design_json;        // what it was read from
  std::vector<SourceFile> files;  // all but design.json, sorted by path
};

/// Reads `<deployment>/rtl/<partition>`. kNotFound where the deployment has none; kCorrupt where the files
/// are not those design.json was written with (its digest), naming the folder.
Result<Source> read_source(const std::filesystem::path& deployment, const std::string& partition);

}  // namespace millrace::runtime::rtl
