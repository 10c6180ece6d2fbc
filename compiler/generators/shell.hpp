// The shell that emit/rtl writes around a partition's dataflow: what is always the same in it, and what it
// takes. The planner reckons with it before there is a top.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

inline constexpr unsigned kDataBytes = 64;  // of an AXI4 port
inline constexpr unsigned kBurst = 16;      // words of it
inline constexpr unsigned kTags = 16;       // frames in a partition at once
inline constexpr unsigned kTagBits = 160;
inline constexpr unsigned kLinkBytes = 8;      // of a word on a connector
inline constexpr unsigned kLinkPacket = 1024;  // bytes, at most
inline constexpr unsigned kLeastLinkCredits = 2;

/// Where a stream of the dataflow meets the host, through the card's memory, or a cable.
struct ShellPort {
  bool input = false;
  bool link = false;
  std::uint32_t lanes = 1;
  std::uint64_t beats = 1;  // a frame
  kernels::ElementType type = {};
};

/// Of the shell of one partition: registers, supervisor, tags and ports. What loads constants is not among it
/// (loader_cost()), nor are a connector's cable core and the gates between instances. Of a link the beats are
/// taken to be words of the cable, and the buffer to hold two packets of the largest size. `connectors`: of
/// the device. Errors as cost()'s.
Result<Cost> shell_cost(const Catalog& catalog, const std::vector<ShellPort>& ports, double clock_mhz,
                        std::uint32_t connectors);

/// The unit of one port to the host: mr_ingress or mr_egress. Its name is empty.
Instance host_port(const ShellPort& port);

/// Of one port to the host, with the FIFO of tags that an output has: less than shell_cost() of it by what
/// every shell has.
Result<Cost> host_port_cost(const Catalog& catalog, const ShellPort& port);

}  // namespace millrace::compiler::generators
