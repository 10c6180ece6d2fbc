// A cluster nobody wrote a file for.
#pragma once

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::plan {

/// An emulated cluster made to fit a valid deployment: one card an endpoint that is not the host, in the
/// plan's order and named after it, cabled as the channels between cards need (a cable carries at most
/// abi::kMaxTags channels each way; more get a second one). Devices have the names the endpoints ask for and
/// a description just large enough.
Cluster emulated_cluster_for(const Deployment& deployment);

}  // namespace millrace::runtime::plan
