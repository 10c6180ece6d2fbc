// From the design of a partition to its SystemVerilog: text only, no decisions; the same design gives the
// same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/emit/rtl/interfaces.hpp"
#include "compiler/generators/design.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::compiler::emit {

/// What a link port keeps: the plan's credits and packet size of its channel.
struct LinkRoom {
  std::uint32_t packet_bytes = 1024, credits = 2;
};

struct RtlOptions {
  double clock_mhz = 0;   // of the device: written into headers, and the shell's counters
  std::string device;     // kind: written into headers
  std::string generator;  // "millrace 0.1.0"
  std::string family;     // of the device, as configs/devices has it; empty: not known
  // What the regions used offer less the shell's share; all zero: not known.
  runtime::plan::Resources available;
  // The regions used, with all they have before the shell; empty: not known.
  std::vector<runtime::plan::Region> whole_regions;
  std::vector<std::string> regions;         // of the device, in its order
  std::uint32_t connectors = 1;             // for cables, of the device
  std::map<std::uint32_t, LinkRoom> links;  // ImagePort::link_index -> its channel's figures
  // Predicted: from a frame's first beat into any card to this partition's last output beat, in its own
  // clock; 0: not known, or no other card is there.
  std::uint64_t passage_cycles = 0;
};

struct Rtl {
  std::map<std::string, std::string> files;  // path inside rtl/<partition>/ -> content; README.md lists them
  std::string digest;  // sha256 of all of them but design.json: what a simulation's cache is keyed by
  TopInterface top;    // of module <partition>_top
  // What its loader takes: 64-bit words, little-endian; empty where nothing is loaded. In no file.
  std::vector<std::byte> load;
  // What its weight readers find at weights_addr; empty where no weights are streamed. In no file either.
  std::vector<std::byte> streamed;
};

/// `program` is what `design` was assembled from. `ports`: the partition's ports as the image has them (an
/// input a port of the program, an output a channel); they decide what stands around the dataflow in the top.
/// kInternal where the two contradict each other.
Result<Rtl> emit_rtl(const generators::Design& design, const kernels::Program& program,
                     const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options);

}  // namespace millrace::compiler::emit
