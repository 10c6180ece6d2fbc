// `verify --fidelity rtl`: simulates the SystemVerilog of all partitions of a deployment, and the cables
// between them, in this process and under one clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/rtl/system.hpp"
#include "tools/cli/verify_frames.hpp"

namespace millrace::cli {

/// Figures in clock cycles. A measured figure is empty if too few frames ran; a predicted figure is empty if
/// there is no prediction.
struct RtlCycles {
  std::optional<double> interval;
  std::optional<std::uint64_t> latency, first_output;
};

struct RtlStream {
  std::string name;
  std::uint64_t depth = 0, high_water = 0, predicted_high_water = 0;
  /// Whether the FIFO is deeper than twice its high-water mark. A FIFO of the minimum depth, 2, is never wasteful.
  bool is_wasteful() const { return depth > 2 && depth > 2 * high_water; }
};

/// The number of multiply-accumulates per DSP slice and clock cycle; empty if unknown.
struct DspUse {
  std::optional<double> interval;  // averaged over the measured interval
  std::optional<double> busy;  // averaged over the cycles in which the layer's multipliers accept operands
};

/// A layer whose multiplications use DSP slices.
struct RtlLayer {
  std::string name;
  std::uint64_t multiply_accumulates = 0;   // per frame, without those on padding or unused lanes
  std::uint64_t dsp = 0;                    // predicted DSP slices
  std::uint64_t predicted_busy_cycles = 0;  // per frame, from the layer's folding
  std::optional<double> busy_cycles;        // per frame, counted in the simulation; empty after a standstill
};

struct RtlPartition {
  std::string name;
  double clock_mhz = 0;
  RtlCycles measured, predicted;  // in cycles of the partition's own clock
  std::vector<RtlStream> streams;
  std::vector<RtlLayer> layers;
  DspUse dsp_use(const RtlLayer& layer) const;
  DspUse dsp_use() const;  // averaged over all `layers`
};

/// All results of the simulation except the output bytes.
struct RtlFindings {
  std::size_t cards = 0;
  std::uint64_t seed = 0;
  double stall = 0;
  double clock_mhz = 0;  // the simulated clock, which is the fastest card's
  std::uint64_t cycles = 0;
  RtlCycles measured;
  RtlCycles predicted;            // its interval is that of the slowest partition or cable
  bool latency_is_bound = false;  // the predicted latency sums all partitions and cables: an upper bound
  std::vector<RtlPartition> partitions;
  std::vector<runtime::rtl::System::ChannelReport> channels;  // those that are modelled
  std::vector<std::string> udp_channels;  // names of the channels over UDP whose link hardware was simulated
  std::optional<runtime::rtl::Standstill> standstill;

  /// Whether the FIFOs are deep enough: the measured interval is at most 1 % longer than the predicted one.
  /// Empty if stalls were injected or too few frames ran.
  std::optional<bool> reaches_interval() const;
  std::vector<std::string> wasteful_streams() const;  // "<partition>.<stream>"
};

/// Builds those simulations that are not in the cache, runs the frames, and compares every output of every
/// card partition and of the model with the reference. Returns kEnvironment if Verilator or g++ is missing,
/// and the errors of rtl::build_simulations(), bind_endpoints() and System::run().
Status run_rtl(const VerifyCommand& command, const runtime::plan::LoadedDeployment& deployment,
               const runtime::plan::Cluster& cluster, const ReferenceModel& reference,
               const VerifyFrames& frames, Findings& findings, RtlFindings& out);

}  // namespace millrace::cli
