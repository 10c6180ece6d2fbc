// Writes a deployment directory for a program made by a test, as `compile` does for the program that it reads
// from an ONNX file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/explore/partition.hpp"
#include "kernels/program/program.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::tests {

/// Cuts the program into `partitions` partitions, one for each card, writes the deployment to `directory` and loads it.
/// `description` is the model's description, which is part of the plan but of no FPGA image. Throws std::runtime_error.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy(const kernels::Program& program,
                                                              const runtime::plan::Cluster& cluster,
                                                              std::uint32_t partitions,
                                                              const std::filesystem::path& directory,
                                                              const std::string& description = {});

/// Like deploy(), but also generates SystemVerilog for every card partition, folded for an interval of at
/// most `interval_cycles` clock cycles. The SystemVerilog is that of `hardware_of`, which differs from
/// `program` only in its constants.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy_rtl(const kernels::Program& program,
                                                                  const runtime::plan::Cluster& cluster,
                                                                  std::uint32_t partitions,
                                                                  const std::filesystem::path& directory,
                                                                  std::uint64_t interval_cycles,
                                                                  const kernels::Program& hardware_of);

/// Like deploy(), but `solution` says how to cut the program. `program` already contains the solution's
/// relays, which forward tensors.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy_as(const kernels::Program& program,
                                                                 const compiler::explore::Solution& solution,
                                                                 const runtime::plan::Cluster& cluster,
                                                                 const std::filesystem::path& directory);

}  // namespace millrace::tests
