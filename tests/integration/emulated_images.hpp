// Images made by hand for tests of emulated cards, and a way to damage them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::tests {

using Bytes = std::vector<std::byte>;

/// Four emulated cards fpga0 … fpga3 of device "ku060" with two banks; cables 0.0-1.0, 1.1-2.0, 0.1-2.1.
runtime::plan::Cluster test_cluster();

/// One input "in", one output "out" of `elements`; out = table(in) with a table drawn from `seed`.
kernels::Program lookup_program(std::uint32_t elements, std::uint32_t seed, kernels::ElementType from = {},
                                kernels::ElementType to = {});

/// Inputs "a", "b", output "out": clamp(a + b) of `elements` int8.
kernels::Program add_program(std::uint32_t elements);

/// Host ports are "ingress"/"egress" ports, link ports take rows in the order given. Ports as in
/// runtime::plan::ImagePartition; an output with two entries is a fork.
struct PortSpec {
  std::string name;
  runtime::plan::PortKind kind;
};
/// An image with one partition `p`.
runtime::plan::EmulationData image_data(const kernels::Program& program, const std::vector<PortSpec>& ports);
Bytes container(const runtime::plan::EmulationData& data);

/// An image with the one compute unit millrace_nop:nop_1 and no program.
Bytes empty_kernel_image();

/// A container taken apart: sections can be replaced or removed, then put together again (without our
/// checksum).
struct XclbinParts {
  struct Section {
    std::uint32_t kind;
    std::string name;
    Bytes bytes;
  };
  Bytes header;  // up to the section table
  std::vector<Section> sections;

  explicit XclbinParts(const Bytes& container);
  Bytes* find(std::uint32_t kind);
  void remove(std::uint32_t kind);
  void set_uuid(unsigned char salt);
  Bytes assemble() const;
};

}  // namespace millrace::tests
