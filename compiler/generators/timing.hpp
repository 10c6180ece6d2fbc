// Simulates a netlist clock by clock, with the handshake and counters of every unit but without data. A
// dataflow's timing does not depend on its data, so initiation interval, latency and FIFO fillings are exact,
// within milliseconds. Tests compare them with the SystemVerilog, module by module and net by net.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/generators/netlist.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

struct TimingOptions {
  std::uint32_t frames = 6;  // at least 3; 1 with arrivals
  /// 0: all inputs are offered at once; else the beats of each frame are spread evenly over this time.
  std::uint64_t frame_interval = 0;
  bool unlimited_fifos = false;  // FIFOs are never full
  /// For each input, the cycle in which each beat of the one frame arrives. Empty: all are there from the
  /// start.
  std::vector<std::vector<std::uint64_t>> arrivals;
  /// The cycles of the first frame at which the simulation gives up.
  std::uint64_t most_latency = std::numeric_limits<std::uint64_t>::max();
};

struct Timing {
  std::uint64_t interval_cycles = 0;  // between the last output beats of successive frames, in steady state
  /// Of the first frame: from its first input beat to its last output beat, and to its first.
  std::uint64_t latency_cycles = 0, first_output_cycles = 0;
  std::vector<std::uint64_t> high_water;  // the most beats held, for each unit; 0 if it is no FIFO
  // If arrivals were given: the cycle in which the first input beat was taken and, for each output, the
  // cycles in which its beats left.
  std::uint64_t first_input_cycle = 0;
  std::vector<std::vector<std::uint64_t>> departures;
};

/// The cycles of an mr_weight_reader whose memory answers in the cycle after each request.
struct ReaderTiming {
  std::uint64_t line_cycles = 0;   // between lines of one pass
  std::uint64_t pass_cycles = 0;   // between passes; more if lines share words and the last word is not full
  std::uint64_t first_cycles = 0;  // from its activation to the first line
};
ReaderTiming reader_timing(const Instance& reader);

/// Inputs are offered and outputs taken in every clock; streamed weights come as reader_timing() says.
/// kInternal if the dataflow deadlocks (for example a FIFO too small before a join): the message names the
/// waiting streams. kDoesNotFit beyond most_latency.
Result<Timing> simulate(const Netlist& netlist, const TimingOptions& options = {});

}  // namespace millrace::compiler::generators
