// Simulates partitions, the cables between them and the host under one clock: that of the fastest partition.
// A slower partition ticks when its own clock would.
//
// The host takes no time. It offers inputs in every clock while frames are left, and takes outputs in every
// clock. With stalls, each port holds back at random in each clock: it does not raise valid (once raised,
// valid stays), or it withdraws ready. The memory of streamed weights stalls too.
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

/// The cycles in which a frame's first and last beat passed a port.
struct FramePassage {
  std::uint64_t first = 0, last = 0;                // cycles of the system's clock
  std::uint64_t first_of_own = 0, last_of_own = 0;  // cycles of the partition's clock
};

struct SystemOptions {
  double stall = 0;  // probability, 0 <= stall < 1
  std::uint64_t seed = 1;
  std::uint64_t patience = 0;  // cycles without a beat or packet until a standstill; 0: from the predictions
};

struct Standstill {
  std::uint64_t cycle = 0;
  std::string message;               // which ports and streams wait, one line per partition
  std::vector<std::string> streams;  // "<partition>.<stream>" of those that hold beats nobody takes
};

/// One thread.
class System {
 public:
  explicit System(const SystemOptions& options);
  ~System();

  /// Build the system before run(). Each function returns an index that counts from 0 in the order of calls.
  std::size_t add_partition(std::string name, std::unique_ptr<Simulation> simulation, double clock_mhz);
  std::size_t add_cable(std::string name, double gigabits_per_second, double latency_ns);  // one direction
  struct End {
    std::size_t partition = 0, port = 0;
  };
  struct Packets {
    std::uint32_t bytes = 0, credits = 0;
  };
  std::size_t add_channel(std::string name, End output, End input, std::size_t cable, Packets packets);

  /// Adds a packed frame (kernels/program/packing.hpp) for an input that the host feeds. `on_frame` may call
  /// it.
  void feed(End input, std::vector<std::byte> packed);

  /// Runs until every output of every partition has produced `frames` frames. `on_frame` gets each packed
  /// frame when its last beat comes. `progress`, if given, is called from time to time. kInternal: a
  /// SystemVerilog assertion failed. If nothing moves any more, the status is ok and standstill() describes
  /// what waits.
  using OnFrame = std::function<void(End output, std::uint64_t frame, const std::vector<std::byte>& packed)>;
  Status run(std::uint64_t frames, const OnFrame& on_frame, const std::function<void()>& progress = {});

  const std::optional<Standstill>& standstill() const { return standstill_; }
  std::uint64_t cycles() const { return now_; }
  double clock_mhz() const { return clock_mhz_; }

  std::size_t partitions() const { return parts_.size(); }
  const Simulation& simulation(std::size_t partition) const;
  const std::string& name(std::size_t partition) const;
  double clock_mhz(std::size_t partition) const;
  /// One entry per frame, in order.
  const std::vector<FramePassage>& input_passages(End input) const;
  const std::vector<FramePassage>& output_passages(End output) const;

  struct ChannelReport {
    std::string name, cable;
    std::uint64_t packets = 0, bits = 0, starved_cycles = 0;
    double cable_busy = 0;  // fraction of the time in which the cable was busy, for any channel
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
