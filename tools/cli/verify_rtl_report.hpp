// Prints all results of `verify --fidelity rtl` except the comparison of output bytes.
//
// JSON keys that are added to those of `verify`; an unknown figure is null:
//   seed, stall, clock_mhz (the simulated clock, which is the fastest card's), cycles (of the whole run)
//   measured, predicted: initiation_interval_cycles, latency_cycles, first_output_cycles
//     measured also has frames_per_second and latency_us
//     predicted also has latency_is_bound: true if the deployment has no latency of the whole pipeline; the
//     predicted latency is then the sum over partitions and cables, an upper bound
//   partitions[]: name, clock_mhz, measured and predicted (in cycles of the partition's clock), streams[],
//     layers[] (those that multiply in DSP slices), macs_per_dsp_cycle (over all these layers)
//     streams[]: name, depth, high_water, predicted_high_water, wasteful
//     layers[]: name, multiply_accumulates, dsp (predicted), busy_cycles (cycles per frame in which the
//       multipliers accept operands), predicted_busy_cycles, macs_per_dsp_cycle
//     macs_per_dsp_cycle: interval (averaged over the measured interval), busy (averaged over busy_cycles)
//   links[]: channel, cable, packets, bits, starved_cycles, cable_busy (0..1), for channels whose links are modelled
//   udp_links[]: names of the channels over UDP whose link hardware was simulated
//   fifos: streams, sufficient (null if stalls were injected), wasteful (names)
//   standstill: null, or cycle and streams (names)
// An interval is the time between the last output words of successive frames. The latency is that of the
// first frame.
#pragma once

#include <iosfwd>

#include <boost/json/fwd.hpp>

#include "runtime/base/result.hpp"
#include "tools/cli/verify_rtl.hpp"

namespace millrace::cli {

void add_json(const RtlFindings& findings, boost::json::object& document);
void print_text(const RtlFindings& findings, std::ostream& out);

/// Returns kDoesNotFit if the simulation stood still (the message names the blocked streams) or was more than
/// 1 % slower than predicted. Does not judge the speed if stalls were injected or too few frames ran.
Status verdict(const RtlFindings& findings);

}  // namespace millrace::cli
