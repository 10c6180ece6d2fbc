// Writes a deployment directory for a hand-made program, as `compile` does after its front end.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/explore/partition.hpp"
#include "kernels/program/program.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::tests {

/// Cuts the program over `partitions` cards of the cluster, writes the deployment to `directory` and loads
/// it. `description` describes the model; it is part of the plan but of no image. Throws std::runtime_error.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy(const kernels::Program& program,
                                                              const runtime::plan::Cluster& cluster,
                                                              std::uint32_t partitions,
                                                              const std::filesystem::path& directory,
                                                              const std::string& description = {});

/// Like deploy(), with SystemVerilog for every partition on a card, folded for an interval of at most
/// `interval_cycles`. The SystemVerilog is generated from `hardware_of`, which equals `program` but for its
/// constants.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy_rtl(const kernels::Program& program,
                                                                  const runtime::plan::Cluster& cluster,
                                                                  std::uint32_t partitions,
                                                                  const std::filesystem::path& directory,
                                                                  std::uint64_t interval_cycles,
                                                                  const kernels::Program& hardware_of);

/// Like deploy(), cut as `solution` says. `program` already contains the solution's relays.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy_as(const kernels::Program& program,
                                                                 const compiler::explore::Solution& solution,
                                                                 const runtime::plan::Cluster& cluster,
                                                                 const std::filesystem::path& directory);

}  // namespace millrace::tests
