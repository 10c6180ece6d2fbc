// The shell that emit/rtl writes around a partition's dataflow: its constants, and its cost, which the
// planner needs before the shell is written.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

inline constexpr unsigned kDataBytes = 64;  // of an AXI4 port
inline constexpr unsigned kBurst = 16;      // words of it
inline constexpr unsigned kTags = 16;       // most frames in a partition at once
inline constexpr unsigned kTagBits = 160;
inline constexpr unsigned kLinkBytes = 8;      // of a word on a connector
inline constexpr unsigned kLinkPacket = 1024;  // bytes, at most
inline constexpr unsigned kLeastLinkCredits = 2;

/// A connection of the dataflow to the host (through the card's memory) or to a cable.
struct ShellPort {
  bool input = false;
  bool link = false;
  std::uint32_t lanes = 1;
  std::uint64_t beats = 1;  // a frame
  kernels::ElementType type = {};
};

/// The cost of one partition's shell: registers, supervisor, tags and ports. It contains neither
/// loader_cost() nor a connector's cable core nor the gates between instances. Links are assumed to have
/// beats as wide as words of the cable, and buffers for two packets of the largest size. `connectors` is the
/// device's number of them. Errors as cost()'s.
Result<Cost> shell_cost(const Catalog& catalog, const std::vector<ShellPort>& ports, double clock_mhz,
                        std::uint32_t connectors);

/// The instance for one port to the host: mr_ingress or mr_egress, without a name.
Instance host_port(const ShellPort& port);

/// The cost of one port to the host, with the FIFO of tags of an output, and without the parts that every
/// shell has.
Result<Cost> host_port_cost(const Catalog& catalog, const ShellPort& port);

}  // namespace millrace::compiler::generators
