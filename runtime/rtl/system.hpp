// Simulates partitions, the cables between them and the host with one clock: the clock of the fastest
// partition. A slower partition advances only when its own clock would.
//
// The host is infinitely fast. It offers inputs in every clock while frames are left, and reads outputs in every clock.
// With stalls, each port delays at random in each clock: an input port raises its signal valid later (and then keeps it
// raised), and an output port lowers its signal ready. The memory that holds streamed weights stalls too.
//
// The model of cables has bandwidth and latency; the model of channels has packets and credits. A sender buffers two
// packets. A packet is sent when it is complete and has a credit. The channels of a cable take turns, and a packet
// occupies the cable for its bytes on the wire. A packet can be read one cable latency after its last bit was sent. Its
// credit returns one latency after its last bit was read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/rtl/simulation.hpp"

namespace millrace::runtime::rtl {

/// The cycles in which the first and last beat (transfer) of a frame passed a port.
struct FramePassage {
  std::uint64_t first = 0, last = 0;                // cycles of the system's clock
  std::uint64_t first_of_own = 0, last_of_own = 0;  // cycles of the partition's clock
};

struct SystemOptions {
  double stall = 0;  // probability of a delay in a clock, 0 <= stall < 1
  std::uint64_t seed = 1;
};

struct Standstill {
  std::uint64_t cycle = 0;
  std::string message;               // describes which ports and streams wait, one line per partition
  std::vector<std::string> streams;  // "<partition>.<stream>" whose beats nobody reads
};

/// The simulated partitions, cables and host. Only one thread may use a system.
class System {
 public:
  explicit System(const SystemOptions& options);
  ~System();

  /// The add functions must be called before run(). Each returns an index that counts from 0 in the order of calls.
  std::size_t add_partition(std::string name, std::unique_ptr<Simulation> simulation, double clock_mhz);
  std::size_t add_cable(std::string name, double gigabits_per_second, double latency_ns);  // one direction
  struct End {
    std::size_t partition = 0, port = 0;
  };
  struct PacketSize {
    std::uint32_t bytes = 0, credits = 0;
  };
  std::size_t add_channel(std::string name, End output, End input, std::size_t cable, PacketSize packets);

  /// Adds a packed frame (kernels/program/packing.hpp) for an input that the host feeds. `on_frame` may call feed().
  void feed(End input, std::vector<std::byte> packed);

  /// Runs until every output of every partition has produced `frames` frames. `on_frame` receives each packed frame
  /// when it is complete. `progress`, if set, is called from time to time. Returns kInternal if a SystemVerilog
  /// assertion failed. If nothing advances any more, the status is ok and standstill() describes what waits.
  using OnFrame = std::function<void(End output, std::uint64_t frame, const std::vector<std::byte>& packed)>;
  Status run(std::uint64_t frames, const OnFrame& on_frame, const std::function<void()>& progress = {});

  const std::optional<Standstill>& standstill() const { return standstill_; }
  std::uint64_t cycles() const { return now_; }
  double clock_mhz() const { return clock_mhz_; }

  std::size_t partitions() const { return parts_.size(); }
  const Simulation& simulation(std::size_t partition) const { return *parts_[partition].simulation; }
  const std::string& name(std::size_t partition) const { return parts_[partition].name; }
  double clock_mhz(std::size_t partition) const { return parts_[partition].clock_mhz; }
  /// When each frame passed one port, in frame order.
  using Passages = std::vector<FramePassage>;
  const Passages& input_passages(End end) const { return parts_[end.partition].inputs[end.port].passages; }
  const Passages& output_passages(End end) const { return parts_[end.partition].outputs[end.port].passages; }

  struct ChannelReport {
    std::string name, cable;
    std::uint64_t packets = 0, bits = 0, starved_cycles = 0;
    double cable_busy = 0;  // fraction of the time in which the cable sends a packet
  };
  std::vector<ChannelReport> channels() const;

 private:
  struct Cable;
  struct Channel;
  /// Frames that wait for their reader, which may already have read a part of the first frame.
  using Frames = std::deque<std::vector<std::byte>>;
  struct Input {
    std::uint64_t beat_bits = 0, beats = 0, beat = 0;
    Frames fed;                  // frames that the host feeds to this input
    Channel* channel = nullptr;  // set if another partition feeds this input
    bool offered = false;
    Passages passages;
  };
  struct Output {
    std::uint64_t beat_bits = 0, beats = 0, beat = 0;
    std::vector<std::byte> frame;
    std::vector<Channel*> channels;
    Passages passages;        // if beat > 0, the last frame is incomplete
    std::uint64_t whole = 0;  // number of complete frames
  };
  struct Part {
    std::string name;
    std::unique_ptr<Simulation> simulation;
    double clock_mhz = 0, phase = 0;
    std::uint64_t ticks = 0;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
  };

  std::uint64_t patience() const;
  Status check_assertions() const;
  void tick(std::size_t partition, const OnFrame& on_frame);
  void offer(Input& input, const abi::Port& port);
  void take(Part& part, Input& input);
  void accept(End end, const OnFrame& on_frame);
  bool is_finished(std::uint64_t frames) const;
  void stand_still();
  bool stalls() { return threshold_ != 0 && random_() < threshold_; }

  const SystemOptions options_;
  const std::uint64_t threshold_;
  std::mt19937_64 random_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Cable>> cables_;
  std::vector<std::unique_ptr<Channel>> channels_;
  double clock_mhz_ = 0;
  std::uint64_t now_ = 0, moved_at_ = 0;
  std::optional<Standstill> standstill_;
};

}  // namespace millrace::runtime::rtl
