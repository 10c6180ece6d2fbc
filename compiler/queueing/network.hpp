// The queueing network of a plan: a station for each partition, each direction of each cable that is used, and the core
// of the host that works between cards.
#pragma once

#include <cstdint>

#include "compiler/planning/plan.hpp"
#include "compiler/queueing/simulate.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::queueing {

/// Returns the network of a plan with a prediction. `slots` is the maximum number of frames in each pipeline, as in the
/// server's settings. A frame that is alone in the network takes as long as the plan predicts. The network leaves out
/// what the plan's figures leave out: transfers between host and cards, and the host's work before the first card and
/// after the last card.
///
/// A channel over a cable has the credits of the communication plan, rounded down to whole frames, but at least 1. A
/// credit returns over the cable. While the next cable is busy, a partition may begin further frames until its pipeline
/// and a buffer for one frame are full.
///
/// Returns kUnsupported if a channel joins two cards without a cable. The error names the channel.
Result<Network> network_of(const Plan& plan, std::uint32_t slots);

}  // namespace millrace::compiler::queueing
