// Makes the contents of a deployment (the plan and the FPGA images) from a partitioned program. These functions make
// no decisions of their own. Only write() does I/O.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/communication.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/planning/partitions.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::emit {

/// A finished deployment, not yet on disk.
struct Artifacts {
  runtime::plan::Deployment plan;
  std::map<std::string, std::vector<std::byte>> files;  // path inside the deployment -> content
  Binding binding;  // the cards that the plan was made for; a server may bind the endpoints to other cards
};

/// Makes one partition from each part and names it as partition_programs() does. The plan contains the programs of
/// partitions on the host. A partition on a card has endpoint "card<place>", image "image<place>" and the device's
/// first region. If the partition has a design, its SystemVerilog is below "rtl/<partition>/". `program` names its
/// inputs and outputs as `model` does. The returned plan is valid, and its communication is checked, with the frame
/// rate of one replica if the rate is known.
Result<Artifacts> build_deployment(const kernels::Program& program, const explore::Solution& solution,
                                   const runtime::plan::Cluster& cluster,
                                   const runtime::plan::ModelInfo& model, const Designs& designs = {},
                                   std::optional<double> frames_per_second = {});

/// Returns the endpoints, the partitions, the communication plan and the binding (the cards of the plan) of
/// build_deployment(), without images and files. The communication is not checked. Takes far less time than
/// build_deployment().
Result<Artifacts> outline_deployment(const kernels::Program& program, const explore::Solution& solution,
                                     const runtime::plan::Cluster& cluster,
                                     const runtime::plan::ModelInfo& model);

/// Writes a deployment to disk, completely or not at all.
Status write(const Artifacts& artifacts, const std::filesystem::path& directory);

}  // namespace millrace::compiler::emit
