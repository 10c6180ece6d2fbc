// A deployment directory from a program made by hand: what `compile` does behind its front end.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/explore/partition.hpp"
#include "kernels/program/program.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::tests {

/// Cuts the program over `partitions` cards of the cluster and writes the deployment to `directory`, then
/// loads it. `description`: of the model, in the plan and in no image. Throws std::runtime_error.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy(const kernels::Program& program,
                                                              const runtime::plan::Cluster& cluster,
                                                              std::uint32_t partitions,
                                                              const std::filesystem::path& directory,
                                                              const std::string& description = {});

/// As deploy(), with SystemVerilog for every card partition, folded for an interval of at most
/// `interval_cycles`: of `hardware_of`, which is `program` but for its constants.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy_rtl(const kernels::Program& program,
                                                                  const runtime::plan::Cluster& cluster,
                                                                  std::uint32_t partitions,
                                                                  const std::filesystem::path& directory,
                                                                  std::uint64_t interval_cycles,
                                                                  const kernels::Program& hardware_of);

/// Cut as a solution says, whose relays are in the program already.
std::shared_ptr<const runtime::plan::LoadedDeployment> deploy_as(const kernels::Program& program,
                                                                 const compiler::explore::Solution& solution,
                                                                 const runtime::plan::Cluster& cluster,
                                                                 const std::filesystem::path& directory);

}  // namespace millrace::tests
