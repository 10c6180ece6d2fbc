// A netlist played clock by clock: every unit's handshake and counters as its module in kernels/rtl has them,
// no data. Exact initiation interval, latency and FIFO fillings in milliseconds, because a dataflow's timing
// does not depend on its data. Agreement with the SystemVerilog is tested module by module and net by net.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/generators/netlist.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

struct TimingOptions {
  std::uint32_t frames = 6;  // at least 3; 1 with arrivals
  /// 0: inputs come at once; else each frame's beats are spread evenly over so many cycles.
  std::uint64_t frame_interval = 0;
  bool unlimited_fifos = false;  // FIFOs are never full
  /// Of each input: the cycle from which on each beat of the one frame played is there. Empty: none waits.
  std::vector<std::vector<std::uint64_t>> arrivals;
  /// Give up after these; and where the first frame takes longer than these.
  std::uint64_t most_cycles = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most_latency = std::numeric_limits<std::uint64_t>::max();
};

struct Timing {
  std::uint64_t interval_cycles = 0;  // between the last output beats of successive frames, in steady state
  /// Of the first frame, from its first input beat taken to its last, and to its first, output beat given.
  std::uint64_t latency_cycles = 0, first_output_cycles = 0;
  std::vector<std::uint64_t> high_water;  // one a unit: the most beats a FIFO held; 0 for what is none
  // Where arrivals were given: the cycle in which the first input beat was taken, and, of each output, those
  // in which its beats were given.
  std::uint64_t first_input_cycle = 0;
  std::vector<std::vector<std::uint64_t>> departures;
};

/// Of a mr_weight_reader before a memory that answers in the cycle after each request.
struct ReaderTiming {
  std::uint64_t line_cycles = 0;   // between lines of one pass
  std::uint64_t pass_cycles = 0;   // between passes; more where lines share words and the last is not full
  std::uint64_t first_cycles = 0;  // from its being active to the first line
};
ReaderTiming reader_timing(const Instance& reader);

/// All inputs are fed and all outputs taken at every clock; streamed weights come as reader_timing() says.
/// kInternal where it stands still: says which streams wait (a FIFO too small before a join); kDoesNotFit
/// beyond most_cycles or most_latency.
Result<Timing> simulate(const Netlist& netlist, const TimingOptions& options = {});

}  // namespace millrace::compiler::generators
