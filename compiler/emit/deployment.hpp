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
#include "compiler/generators/design.hpp"
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

/// Partition -> its hardware. One that is not there runs at `functional` fidelity only.
using Designs = std::map<std::string, generators::Design>;

/// The programs of the parts, in their order, each named as the partition it becomes.
std::vector<kernels::Program> partition_programs(const kernels::Program& program,
                                                 const explore::Solution& solution);

/// Parts on the host become partitions "input" (nothing before it), "output" (nothing after it) or "host<n>",
/// with their program in the plan; parts on cards become "part<n>" on endpoint "card<place>", in image
/// "image<place>" and the device's first region; those with a design get their
/// SystemVerilog below "rtl/<partition>/". `program` names its inputs and outputs as `model` does. The
/// plan returned is valid and its communication checked, at the rate of one replica where it is known.
Result<Artifacts> build_deployment(const kernels::Program& program, const explore::Solution& solution,
                                   const runtime::plan::Cluster& cluster,
                                   const runtime::plan::ModelInfo& model, const Designs& designs = {},
                                   std::optional<double> frames_per_second = {});

/// Writes it, whole or not at all.
Status write(const Artifacts& artifacts, const std::filesystem::path& directory);

}  // namespace millrace::compiler::emit
