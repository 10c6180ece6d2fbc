// Makes a deployment's communication plan (the messages that each port sends and receives for one frame, with packet
// sizes and credits) and checks that the plan cannot deadlock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::emit {

/// Maps the name of an endpoint (the plan's name for a card) to the name of a card of the cluster.
using Binding = std::map<std::string, std::string>;

/// Fills `deployment.channels` and `.communication` from the deployment's model, endpoints and partitions. An input
/// port gets its tensor from the partition or the model input that produces it. A tensor has one channel for each
/// reader, in the order of the readers. A channel between cards has the protocol and packet size of the first cable
/// between its cards; README.md says how many credits a channel over a cable has. A channel between cards that only MPI
/// joins (plan::join_hosts()) has the transport kMpi. Returns kInternal if a tensor has no producer.
Status plan_communication(runtime::plan::Deployment& deployment, const runtime::plan::Cluster& cluster,
                          const Binding& binding);

/// Returns the bytes that a frame of a channel between cards occupies on the cable, with headers and checksums.
std::uint64_t bytes_on_wire(const runtime::plan::Channel& channel);

/// Checks a plan on a cluster, beyond plan::validate(): every channel between cards has a cable; a cable carries at
/// most abi::kMaxTags channels in each direction; no cyclic wait exists; and, if the frame rate is known, no cable has
/// to carry more bytes per second than it can. A kDoesNotFit error names channel, cable and remedy.
Status check_communication(const runtime::plan::Deployment& deployment, const runtime::plan::Cluster& cluster,
                           const Binding& binding, std::optional<double> frames_per_second = {});

/// Simulates three frames in the plan, counting packets and credits only. Every partition behaves in the worst allowed
/// manner: it takes its inputs in lock-step, sends nothing before it has all of them, and takes nothing of the next
/// frame before it has sent everything. Returns an empty text if all frames arrive, otherwise a text that names the
/// channels that partitions wait for.
std::string find_cyclic_wait(const runtime::plan::Deployment& deployment);

}  // namespace millrace::compiler::emit
