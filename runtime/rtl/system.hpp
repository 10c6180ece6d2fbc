// Partitions, the cables between them and the host, under one simulated clock: the fastest partition's. A
// slower partition ticks when its own clock would.
//
// Inputs the host feeds are offered at every clock while frames are left, outputs the host reads are taken at
// every clock; the host itself takes no time. With stalls, each port at each clock holds back at random:
// valid is then not raised (once raised it stays), ready is withdrawn. So does the memory weights are read
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/rtl/link_model.hpp"
#include "runtime/rtl/simulation.hpp"

namespace millrace::runtime::rtl {

/// When a frame's first and last beat passed a port.
struct FramePassage {
  std::uint64_t first = 0, last = 0;                // cycles of the system's clock
  std::uint64_t first_of_own = 0, last_of_own = 0;  // cycles of the partition's clock
};

struct SystemOptions {
  double stall = 0;  // probability, 0 <= stall < 1
  std::uint64_t seed = 1;
  std::uint64_t patience = 0;  // cycles without a beat or packet that are a standstill; 0: from predictions
};

struct Standstill {
  std::uint64_t cycle = 0;
  std::string message;               // what waits for what, a line a partition
  std::vector<std::string> streams;  // "<partition>.<stream>" that hold beats nobody takes
};

/// One thread.
class System {
 public:
  explicit System(const SystemOptions& options);
  ~System();

  /// Before run(). Numbers count from 0 in the order of the calls.
  std::size_t add_partition(std::string name, std::unique_ptr<Simulation> simulation, double clock_mhz);
  std::size_t add_cable(std::string name, double gigabits_per_second, double latency_ns);  // one direction
  struct End {
    std::size_t partition = 0, port = 0;
  };
  struct Packets {
    std::uint32_t bytes = 0, credits = 0;
  };
  std::size_t add_channel(std::string name, End output, End input, std::size_t cable, Packets packets);

  /// A frame for an input the host feeds, packed (kernels/program/packing.hpp). Also from `on_frame`.
  void feed(End input, std::vector<std::byte> packed);

  /// Runs until every output of every partition has given `frames` frames. `on_frame` gets each, packed, as
  /// its last beat comes. kInternal: an assertion of the SystemVerilog failed. `progress`, where given, is
  /// called now and then. Where nothing moves any more, standstill() says so and the status is ok.
  using OnFrame = std::function<void(End output, std::uint64_t frame, const std::vector<std::byte>& packed)>;
  Status run(std::uint64_t frames, const OnFrame& on_frame, const std::function<void()>& progress = {});

  const std::optional<Standstill>& standstill() const { return standstill_; }
  std::uint64_t cycles() const { return now_; }
  double clock_mhz() const { return clock_mhz_; }

  std::size_t partitions() const { return parts_.size(); }
  const Simulation& simulation(std::size_t partition) const;
  const std::string& name(std::size_t partition) const;
  double clock_mhz(std::size_t partition) const;
  /// A frame each, in order.
  const std::vector<FramePassage>& input_passages(End input) const;
  const std::vector<FramePassage>& output_passages(End output) const;

  struct ChannelReport {
    std::string name, cable;
    std::uint64_t packets = 0, bits = 0, starved_cycles = 0;
    double cable_busy = 0;  // part of the time, with other channels' packets
  };
  std::vector<ChannelReport> channels() const;

 private:
  struct Input;
  struct Output;
  struct Part;
  struct Channel;

  void tick(Part& part, const OnFrame& on_frame);
  void offer(Part& part, Input& input, const abi::Port& port);
  void take(Part& part, Input& input);
  void accept(std::size_t partition, std::size_t port, const OnFrame& on_frame);
  bool is_finished(std::uint64_t frames) const;
  void stand_still();
  bool stalls() { return threshold_ != 0 && random_() < threshold_; }

  const SystemOptions options_;
  const std::uint64_t threshold_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<CableDirection>> cables_;
  std::vector<std::pair<double, double>> cable_figures_;  // gigabits a second, nanoseconds
  std::vector<std::unique_ptr<Channel>> channels_;
  double clock_mhz_ = 0;
  std::uint64_t now_ = 0, moved_at_ = 0;
  std::optional<Standstill> standstill_;
};

}  // namespace millrace::runtime::rtl
