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
  std::uint32_t frames = 6;  // at least 3
  std::uint64_t frame_interval =
      0;  // > 0: each input's beats come spread evenly over this many cycles; 0: at once
  bool unlimited_fifos = false;                                           // FIFOs never full
  std::uint64_t most_cycles = std::numeric_limits<std::uint64_t>::max();  // give up after these
};

struct Timing {
  std::uint64_t interval_cycles = 0;  // between the last output beats of successive frames, in steady state
  std::uint64_t latency_cycles = 0;   // first frame: first input beat taken to last output beat given
  std::uint64_t first_output_cycles = 0;  // first frame: first input beat taken to first output beat given
  std::vector<std::uint64_t>
      high_water;                   // a unit of the netlist each: most beats a FIFO held; 0 for what is none
  std::vector<std::uint64_t> busy;  // a unit each: cycles in one frame in which it put out or took in a beat
};

/// All inputs are fed and all outputs taken at every clock. kInternal where it stands still: says which
/// streams wait (a FIFO too small before a join); kDoesNotFit beyond most_cycles.
Result<Timing> simulate(const Netlist& netlist, const TimingOptions& options = {});

}  // namespace millrace::compiler::generators
