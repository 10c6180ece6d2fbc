// The shell, the logic with which emit/rtl connects a partition's dataflow to the host and to cables: its
// constants and its cost. The planner needs the cost before the shell is written.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

inline constexpr unsigned kDataBytes = 64;  // width of an AXI4 port in bytes
inline constexpr unsigned kBurst = 16;      // words per AXI4 burst
inline constexpr unsigned kTags = 16;       // maximum number of frames in a partition at the same time
inline constexpr unsigned kTagBits = 160;
inline constexpr unsigned kLinkBytes = 8;      // bytes of a word that a connector transfers
inline constexpr unsigned kLinkPacket = 1024;  // maximum bytes of a packet
inline constexpr unsigned kLeastLinkCredits = 2;

/// A connection of the dataflow to the host (through the card's memory) or to a cable.
struct ShellPort {
  bool input = false;
  bool link = false;
  std::uint32_t lanes = 1;
  std::uint64_t beats = 1;  // beats per frame
  kernels::ElementType type = {};
};

/// Returns the cost of one partition's shell: registers, supervisor (which reports faults), tags and ports. It does not
/// include loader_cost(), the cable cores of connectors, or the gates between instances. The estimate assumes that a
/// link's beats are as wide as the cable's words and that a link buffers two packets of the largest size. `connectors`
/// is the number of connectors of the device. Errors are those of cost().
Result<Cost> shell_cost(const Catalog& catalog, const std::vector<ShellPort>& ports, double clock_mhz,
                        std::uint32_t connectors);

/// Returns an instance without name for one port to the host: mr_ingress or mr_egress.
Instance host_port(const ShellPort& port);

/// Returns the cost of one port to the host (for an output, with its FIFO of frame tags) without parts that every shell
/// has.
Result<Cost> host_port_cost(const Catalog& catalog, const ShellPort& port);

}  // namespace millrace::compiler::generators
