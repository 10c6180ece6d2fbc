// The generated SystemVerilog of a partition: the folder rtl/<partition>/ of a deployment. Its design.json
// (compiler/emit/rtl/README.md) describes ports and streams.
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

/// A port of the dataflow module, with the signals <name>_valid, <name>_ready and <name>_data.
struct Port {
  std::string name;  // "in0"
  std::string tensor;
  kernels::ElementType::Kind kind = kernels::ElementType::Kind::kSigned;
  std::uint32_t lanes = 0, bits = 0;  // elements per transfer, bits per element
  std::uint64_t beats = 0;            // number of transfers ("beats") per frame

  std::uint64_t beat_bits() const { return std::uint64_t{lanes} * bits; }
  std::uint64_t elements() const { return lanes * beats; }
};

/// A stream that passes through a FIFO.
struct Stream {
  std::string name;
  std::string fifo;              // the instance of mr_fifo in the dataflow module
  std::uint64_t depth = 0;       // parameter DEPTH of the FIFO, which holds one beat more
  std::uint64_t high_water = 0;  // predicted: most beats in the FIFO at once
};

/// A block that multiplies in DSP slices, and the number of multiplications for one frame.
struct Layer {
  std::string name;                        // the block's name
  std::uint64_t multiply_accumulates = 0;  // per frame, without those on padding and unused lanes
  std::uint64_t busy_cycles = 0;           // predicted cycles per frame in which the block's multipliers work
  std::uint64_t dsp = 0;                   // predicted DSP slices of the whole block
  std::vector<std::string> units;          // names of its matrix-vector units (equal copies, usually one)
};

struct Cycles {
  std::uint64_t interval = 0;      // cycles between the last output beats of successive frames
  std::uint64_t latency = 0;       // cycles from the first input beat to the last output beat of a lone frame
  std::uint64_t first_output = 0;  // cycles from the first input beat to the first output beat
  std::uint64_t passage = 0;       // cycles from the first beat into any card to the last output; 0: unknown
};

struct Design {
  std::string partition;
  std::string dataflow;  // name of the dataflow module
  double clock_mhz = 0;
  std::string digest;  // sha256 of all other files in the folder
  std::vector<Port> inputs, outputs;
  std::vector<Stream> streams;
  std::vector<Layer> layers;  // empty if design.json has no blocks
  Cycles predicted;
  // The number of 64-bit words of constants that are loaded at run time, and the number of mr_load units in the chain
  // that passes these words on. Both are 0 if no constants are loaded.
  std::uint64_t load_words = 0, load_hops = 0;
  // The size of the streamed weights, which are read from memory during a frame, and the names of the AXI4 ports
  // that read them. 0 and empty if no weights are streamed.
  std::uint64_t streamed_bytes = 0;
  std::vector<std::string> weight_ports;  // "weights0"
};

/// Parses design.json. The text is untrusted: sizes, names and paths are checked. Returns kCorrupt, naming the bad
/// key, or kUnsupported for another schema.
Result<Design> parse_design(std::string_view json);

/// The content of the folder with a partition's SystemVerilog.
struct Source {
  Design design;
  std::string design_json;                   // the text of design.json
  std::map<std::string, std::string> files;  // path in the folder -> content, except design.json
};

/// Reads `<deployment>/rtl/<partition>`. Returns kNotFound if the deployment has no such folder, and kCorrupt, naming
/// the folder, if its files do not match the digest in design.json.
Result<Source> read_source(const std::filesystem::path& deployment, const std::string& partition);

}  // namespace millrace::runtime::rtl
