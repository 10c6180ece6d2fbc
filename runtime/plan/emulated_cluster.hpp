// Makes a cluster of emulated cards for a deployment, for commands without a cluster file.
#pragma once

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plan {

/// An emulated cluster for so many replicas of a deployment. Each replica has one card for each endpoint that
/// is not a host, in the plan's order and named after it; the second replica's names end in "-2", and so on.
/// Cables join cards as their channels need; one cable carries at most abi::kMaxTags channels each way.
/// Devices have as much memory as the banks of their images together. Reads the images. Errors: those of
/// reading them, and kCorrupt.
Result<Cluster> emulated_cluster_for(const LoadedDeployment& deployment, std::uint32_t replicas = 1);

}  // namespace millrace::runtime::plan
