// Makes the contents of a deployment from a partitioned program: the plan and the images. Makes no decisions; only
// write() does I/O.
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
  Binding binding;  // the cards that it was planned for; serving may bind it to others
};

/// Each part becomes a partition, named as by partition_programs(). The program of a partition on the host is
/// in the plan. A partition on a card has endpoint "card<place>", image "image<place>" and the device's first
/// region; if it has a design, its SystemVerilog is below "rtl/<partition>/". `program` names its inputs and
/// outputs as `model` does. The plan returned is valid. Its communication is checked, at the frame rate of one
/// replica if that is known.
Result<Artifacts> build_deployment(const kernels::Program& program, const explore::Solution& solution,
                                   const runtime::plan::Cluster& cluster,
                                   const runtime::plan::ModelInfo& model, const Designs& designs = {},
                                   std::optional<double> frames_per_second = {});

/// Writes the deployment to disk, completely or not at all.
Status write(const Artifacts& artifacts, const std::filesystem::path& directory);

}  // namespace millrace::compiler::emit
