// Simulates a netlist clock by clock, with the handshake and the counters of every unit but without data. A dataflow's
// timing does not depend on its data, so interval, latency and FIFO fillings are exact. A simulation takes
// milliseconds. Tests compare the results with the SystemVerilog, for single modules and for whole netlists.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/generators/netlist.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

struct TimingOptions {
  std::uint32_t frames = 6;  // at least 3, or 1 if `arrivals` are set
  /// The number of cycles over which the input beats of each frame are spread evenly. If 0, all input beats are
  /// available at once.
  std::uint64_t frame_interval = 0;
  bool unlimited_fifos = false;  // whether FIFOs have unlimited depth
  /// For each input, the cycle in which each beat of the only frame arrives. If empty, all beats arrive at the start.
  std::vector<std::vector<std::uint64_t>> arrivals;
  /// The simulation gives up if the first frame takes this many cycles.
  std::uint64_t most_latency = std::numeric_limits<std::uint64_t>::max();
};

struct Timing {
  std::uint64_t interval_cycles = 0;  // between the last output beats of successive frames, in steady state
  /// Cycles from the first frame's first input beat to the frame's last output beat, and to its first output beat.
  std::uint64_t latency_cycles = 0, first_output_cycles = 0;
  /// For each unit, the maximum number of stored beats if the unit is a FIFO, otherwise 0.
  std::vector<std::uint64_t> high_water;
  // The next two members are set only if TimingOptions::arrivals is set: the cycle in which the first input beat is
  // accepted and, for each output, the cycles in which its beats leave.
  std::uint64_t first_input_cycle = 0;
  std::vector<std::vector<std::uint64_t>> departures;
};

/// The cycles of an mr_weight_reader whose memory answers in the cycle after each request.
struct ReaderTiming {
  std::uint64_t line_cycles = 0;  // cycles between two lines of the same pass over the weights
  /// Cycles between the starts of two passes (a pass reads all weights once). More than line_cycles times the number of
  /// lines if lines share memory words and the last word is not full.
  std::uint64_t pass_cycles = 0;
  std::uint64_t first_cycles = 0;  // cycles from the reader's activation to its first line
};
ReaderTiming reader_timing(const Instance& reader);

/// Simulates a netlist whose inputs are offered and whose outputs are accepted in every clock. Streamed weights arrive
/// as reader_timing() says. kInternal if the dataflow deadlocks, for example because a FIFO before a join is too small:
/// the message names the waiting streams. kDoesNotFit if the first frame exceeds most_latency.
Result<Timing> simulate(const Netlist& netlist, const TimingOptions& options = {});

}  // namespace millrace::compiler::generators
