// The communication plan: which port sends what to whom for one frame, in which packets, with how many
// credits; and the proof that it can run.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::emit {

/// Endpoint -> card of the cluster.
using Binding = std::map<std::string, std::string>;

/// Fills `deployment.channels` and `.communication` from its model, endpoints and partitions: an input port
/// takes the tensor of its name from the partition or model input that makes it; a tensor with several
/// readers gets a channel each (a fork, in the order of the readers). Between cards: packets of at most 1,024
/// bytes, credits for the frames that branches may be apart, never fewer than two packets. kInternal where a
/// tensor has no producer.
Status plan_communication(runtime::plan::Deployment& deployment);

/// What a plan must satisfy beyond plan::validate(), on a cluster: every channel between cards has cables, at
/// most abi::kMaxTags channels each way a cable, no cyclic wait, and, where the frame rate is known, bytes
/// per second within each cable. kDoesNotFit, naming channel, cable and remedy.
Status check_communication(const runtime::plan::Deployment& deployment, const runtime::plan::Cluster& cluster,
                           const Binding& binding, std::optional<double> frames_per_second = {});

/// Runs three frames through the plan, packets and credits only, under the worst that a partition may do: it
/// takes its inputs in lock-step, sends nothing before it has all of them, and takes nothing of the next
/// frame before it has sent all. Empty where all frames arrive; else what waits for what.
std::string find_cyclic_wait(const runtime::plan::Deployment& deployment);

}  // namespace millrace::compiler::emit
