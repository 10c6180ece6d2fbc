// From a partitioned program to everything a deployment holds: the plan and the images. No decisions, no I/O.
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
  Binding binding;                                      // the cards explore had in mind; serve binds anew
};

/// Each part becomes a partition, named as by partition_programs(). One on the host has its program in the
/// plan. One on a card stands on endpoint "card<place>", in image "image<place>" and the device's first
/// region; if it has a design, its SystemVerilog is written below "rtl/<partition>/". `program` names its
/// inputs and outputs as `model` does. The plan returned is valid and its communication checked, at the rate
/// of one replica where it is known.
Result<Artifacts> build_deployment(const kernels::Program& program, const explore::Solution& solution,
                                   const runtime::plan::Cluster& cluster,
                                   const runtime::plan::ModelInfo& model, const Designs& designs = {},
                                   std::optional<double> frames_per_second = {});

/// Writes it, whole or not at all.
Status write(const Artifacts& artifacts, const std::filesystem::path& directory);

}  // namespace millrace::compiler::emit
