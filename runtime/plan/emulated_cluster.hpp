// A cluster nobody wrote a file for.
#pragma once

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plan {

/// An emulated cluster made to fit so many replicas of a deployment: for each, one card an endpoint that is
/// not the host, in the plan's order and named after it (those of the second with "-2" behind, and so on),
/// cabled as the channels between cards need (a cable carries at most abi::kMaxTags channels each way; more
/// get a second one). Devices have the names the endpoints ask for and a description just large enough: as
/// much memory as the banks of their images have together. Reads the images; errors are those of reading
/// them, and kCorrupt.
Result<Cluster> emulated_cluster_for(const LoadedDeployment& deployment, std::uint32_t replicas = 1);

}  // namespace millrace::runtime::plan
