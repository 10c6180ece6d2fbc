// Writes the SystemVerilog of a partition's design. Equal designs give equal bytes.
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

/// The credits and packet size of the communication channel of a link port, as in the communication plan.
struct LinkRoom {
  std::uint32_t packet_bytes = 1024, credits = 2;
  bool udp = false;  // whether the channel uses UDP
};

/// The most packets that a port over UDP has on their way. A port with more credits does not go into service.
inline constexpr std::uint32_t kMostUdpSlots = 64;
struct RtlOptions {
  runtime::plan::Device device;
  std::string generator;  // name and version of the compiler: "millrace 0.1.0"
  // The resources of the used regions without the shell's share. All zero means unknown.
  runtime::plan::Resources available;
  std::map<std::uint32_t, LinkRoom> links;  // ImagePort::link_index -> credits and packet size of the channel
  // Predicted time from a frame's first beat into any card to this partition's last output beat, in cycles of this
  // partition's clock. 0 if the time is unknown or there is only one card.
  std::uint64_t passage_cycles = 0;
};

struct Rtl {
  std::map<std::string, std::string> files;  // path inside rtl/<partition>/ -> content; README.md lists them
  std::string digest;  // sha256 of all files except design.json; a cached simulation is found by it
  TopInterface top;    // the ports of module <partition>_top
  // The 64-bit words that the partition's loader receives, little-endian. Empty if nothing is loaded. Not in `files`.
  std::vector<std::byte> load;
  // The streamed weights, which hardware reads from memory at weights_addr. Empty if there are none. Not in `files`.
  std::vector<std::byte> streamed;
};

/// Writes the SystemVerilog of `design`, which was assembled from `program`. `ports` are the partition's ports in its
/// FPGA image: one for each input, and one for each communication channel of an output. The top module contains a unit
/// for each port. Returns kInternal if the ports contradict the design.
Result<Rtl> emit_rtl(const generators::Design& design, const kernels::Program& program,
                     const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options);

}  // namespace millrace::compiler::emit
