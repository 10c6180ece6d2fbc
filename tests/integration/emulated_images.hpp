// Makes small FPGA images for tests of emulated cards, and damages them on request.
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

/// Returns a cluster of four emulated cards, fpga0 … fpga3, of device "ku060" with two memory banks. Its
/// cables, as card.connector, are 0.0-1.0, 1.1-2.0 and 0.1-2.1.
runtime::plan::Cluster test_cluster();

/// Returns a program with one input "in" and one output "out" of `elements` elements each: out = table(in).
/// `seed` determines the table.
kernels::Program lookup_program(std::uint32_t elements, std::uint32_t seed, kernels::ElementType from = {},
                                kernels::ElementType to = {});

/// Returns a program with inputs "a" and "b" and the output "out" = clamp(a + b), each of `elements` int8 values.
kernels::Program add_program(std::uint32_t elements);

/// A port of a partition in an FPGA image, as in runtime::plan::ImagePartition. A port to the host has the kind ingress
/// or egress. A port to a cable uses the next row of the link table. An output with two PortSpecs is a fork.
struct PortSpec {
  std::string name;
  runtime::plan::PortKind kind;
};
/// Returns the content of an FPGA image that has one partition, "p".
runtime::plan::EmulationData image_data(const kernels::Program& program, const std::vector<PortSpec>& ports);
Bytes container(const runtime::plan::EmulationData& data);

/// Returns an FPGA image that has a single compute unit, millrace_nop:nop_1, and no program.
Bytes empty_kernel_image();

/// An xclbin container, split into its sections. A test can replace or remove sections and assemble the
/// container again, without Millrace's checksum.
struct XclbinParts {
  struct Section {
    std::uint32_t kind;
    std::string name;
    Bytes bytes;
  };
  Bytes header;  // the bytes before the section table
  std::vector<Section> sections;

  explicit XclbinParts(const Bytes& container);
  Bytes* find(std::uint32_t kind);
  void remove(std::uint32_t kind);
  void set_uuid(unsigned char salt);
  Bytes assemble() const;
};

}  // namespace millrace::tests
