// What `verify --fidelity rtl` prints besides the bytes.
//
// JSON, added to verify's own:
//   seed, stall, clock_mhz (of the simulated clock: the fastest card's), cycles (of the whole run)
//   measured, predicted: initiation_interval_cycles, latency_cycles, first_output_cycles (null where
//   unknown);
//     measured also frames_per_second and latency_us. predicted.latency_is_bound: the deployment
//     does not say how long a frame takes over its cards, so it is one partition after the other, an upper
//     bound.
//   partitions[]: name, clock_mhz, measured and predicted (of its own clock), streams[]: name, depth,
//     high_water, predicted_high_water, wasteful; layers[], those that multiply in DSP slices: name,
//     multiply_accumulates, dsp (predicted), busy_cycles (counted: of a frame, those in which its multipliers
//     took operands), predicted_busy_cycles, macs_per_dsp_cycle: interval (over the measured one), busy (over
//     the counted cycles; null where unknown); macs_per_dsp_cycle over all those layers
//   links[]: channel, cable, packets, bits, starved_cycles, cable_busy (0..1)
//   fifos: streams, sufficient (null with stalls), wasteful (names)
//   standstill: null, or cycle and streams (names)
// Intervals are between the last output beats of successive frames; the latency is the first frame's.
#pragma once

#include <iosfwd>

#include <boost/json/fwd.hpp>

#include "runtime/base/result.hpp"
#include "tools/cli/verify_rtl.hpp"

namespace millrace::cli {

void add_json(const RtlFindings& findings, boost::json::object& document);
void print_text(const RtlFindings& findings, std::ostream& out);

/// kDoesNotFit where the simulation stood still, naming the streams, or is slower than predicted (more than
/// 1 %; with stalls, or too few frames to tell, nothing is expected).
Status verdict(const RtlFindings& findings);

}  // namespace millrace::cli
