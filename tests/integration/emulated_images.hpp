// Hand-made images for tests of emulated cards, and functions that damage them.
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

/// A program with one input "in" and one output "out" of `elements`: out = table(in). `seed` determines the
/// table.
kernels::Program lookup_program(std::uint32_t elements, std::uint32_t seed, kernels::ElementType from = {},
                                kernels::ElementType to = {});

/// A program with inputs "a" and "b" and the output "out" = clamp(a + b), each of `elements` int8.
kernels::Program add_program(std::uint32_t elements);

/// A port as in runtime::plan::ImagePartition. A host port is of kind ingress or egress; a link port takes
/// the next row of the link table. An output with two entries is a fork.
struct PortSpec {
  std::string name;
  runtime::plan::PortKind kind;
};
/// An image with one partition `p`.
runtime::plan::EmulationData image_data(const kernels::Program& program, const std::vector<PortSpec>& ports);
Bytes container(const runtime::plan::EmulationData& data);

/// An image with a single compute unit, millrace_nop:nop_1, and no program.
Bytes empty_kernel_image();

/// An xclbin container split into sections. A test can replace or remove sections and join the container
/// again (without our checksum).
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
