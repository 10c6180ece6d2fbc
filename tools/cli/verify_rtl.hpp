// `verify --fidelity rtl`: all partitions of a deployment as simulations of their SystemVerilog, with the
// cables between them, in this process under one clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/pipeline/images.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/rtl/system.hpp"
#include "tools/cli/verify_frames.hpp"

namespace millrace::cli {

/// Cycles; none where there were too few frames to tell, or nothing to expect.
struct RtlCycles {
  std::optional<double> interval;
  std::optional<std::uint64_t> latency, first_output;
};

struct RtlStream {
  std::string name;
  std::uint64_t depth = 0, high_water = 0, predicted_high_water = 0;
  /// Deeper than twice what it held; the shallowest FIFO is 2.
  bool is_wasteful() const { return depth > 2 && depth > 2 * high_water; }
};

/// Multiply-accumulates a DSP slice and cycle; none where unknown.
struct DspUse {
  std::optional<double> interval;  // over the measured interval
  std::optional<double> busy;      // over the counted cycles in which the layer's multipliers took operands
};

/// A layer that multiplies in DSP slices.
struct RtlLayer {
  std::string name;
  std::uint64_t multiply_accumulates = 0;   // of a frame, those that count: none with padding or unused lanes
  std::uint64_t dsp = 0;                    // predicted
  std::uint64_t predicted_busy_cycles = 0;  // of a frame, by its folding
  std::optional<double> busy_cycles;        // of a frame, counted in the simulation; none if it stood still
};

struct RtlPartition {
  std::string name;
  double clock_mhz = 0;
  RtlCycles measured, predicted;  // of its own clock
  std::vector<RtlStream> streams;
  std::vector<RtlLayer> layers;
  DspUse dsp_use(const RtlLayer& layer) const;
  DspUse dsp_use() const;  // of all those layers
};

/// What the simulation showed besides bytes.
struct RtlFindings {
  std::size_t cards = 0;
  std::uint64_t seed = 0;
  double stall = 0;
  double clock_mhz = 0;  // of the simulated clock: the fastest card's
  std::uint64_t cycles = 0;
  RtlCycles measured;
  RtlCycles predicted;            // interval: the slowest partition's or cable's
  bool latency_is_bound = false;  // the predicted latency is of one partition after the other
  std::vector<RtlPartition> partitions;
  std::vector<runtime::rtl::System::ChannelReport> channels;
  std::optional<runtime::rtl::Standstill> standstill;

  /// Whether the FIFOs let the interval be reached (within 1 %); none with stalls or too few frames.
  std::optional<bool> reaches_interval() const;
  std::vector<std::string> wasteful_streams() const;  // "<partition>.<stream>"
};

/// Builds the simulations where the cache has none, runs the frames, compares what every card partition gives
/// out, and every output of the model. kEnvironment: Verilator or g++ is missing; others as
/// rtl::build_simulations(), bind_endpoints() and System::run().
Status run_rtl(const VerifyCommand& command, const runtime::plan::LoadedDeployment& deployment,
               const runtime::plan::Cluster& cluster, const runtime::pipeline::Images& images,
               const ReferenceModel& reference, const VerifyFrames& frames, Findings& findings,
               RtlFindings& out);

}  // namespace millrace::cli
