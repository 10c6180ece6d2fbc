// A partition's dataflow, compiled by Verilator and loaded: signals to set and read, and a clock to advance.
//
// A cycle has these steps: set the inputs' valid and data and the outputs' ready; settle(); read the inputs' ready and
// the outputs' valid and data; tick(). One word of data passes if valid and ready are set at the tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/rtl/abi.hpp"
#include "runtime/rtl/design.hpp"

namespace millrace::runtime::rtl {

/// Models the card's memory for the readers of weights, in simulated time. Each AXI4 read port gets its bursts in
/// order: at most one word per clock, the first word a fixed latency after the address. For use by one thread.
class MemoryModel {
 public:
  /// `latency_cycles` is the time from a burst's address to its first word.
  MemoryModel(std::vector<abi::ReadPort> ports, std::uint64_t latency_cycles)
      : ports_(ports.begin(), ports.end()), latency_(latency_cycles) {}

  std::uint64_t latency() const { return latency_; }
  /// Sets the memory's content at kBase. The caller keeps the bytes. Reads outside them return an error.
  void hold(std::span<const std::byte> content) { content_ = content; }
  static constexpr std::uint64_t kBase = 0x1'0000'0000;

  /// Makes the memory delay each address and each word with this probability in each clock.
  void stall(double probability, std::uint64_t seed);

  /// Sets the memory's signals for this clock. Must be called before combinational logic settles; repeated calls in
  /// one clock have no further effect.
  void drive();
  /// Records what the ports received and requested. Must be called between settle() and the rising clock.
  void sample();
  /// Drops all bursts that have not ended.
  void reset();

 private:
  struct Burst {
    std::uint64_t address = 0, words = 0, due = 0;
  };
  struct Port {
    explicit Port(const abi::ReadPort& wires) : signals(wires) {}
    abi::ReadPort signals;
    std::deque<Burst> bursts;
    bool offered = false;                          // whether a word is offered and not yet accepted
    bool hold_address = false, hold_word = false;  // whether address or word is delayed in this clock
  };

  bool chance() { return threshold_ != 0 && random_() < threshold_; }

  std::vector<Port> ports_;
  const std::uint64_t latency_;
  std::span<const std::byte> content_;
  std::uint64_t threshold_ = 0, now_ = 0;
  std::mt19937_64 random_;
};

/// A loaded simulation of one partition. Only one thread at a time may use it.
class Simulation {
 public:
  /// Opens a cache entry (build.hpp) whose checksums were verified. Registers without a reset start with random values
  /// derived from `seed`. The returned model has been reset and its inputs are idle. Returns kCorrupt if the library
  /// is not a simulation of Millrace, and kResourceExhausted if memory ran out.
  static Result<std::unique_ptr<Simulation>> open(const std::filesystem::path& entry, std::uint64_t seed);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  const Design& design() const { return design_; }

  // Signals of ports in the design's order. The caller sets an input's valid and data, and an output's ready.
  const abi::Port& input(std::size_t i) const { return inputs_[i]; }
  const abi::Port& output(std::size_t i) const { return outputs_[i]; }

  void settle() {
    if (memory_) memory_->drive();
    settle_(model_);
  }
  void tick() {
    if (memory_) memory_->sample();
    tick_(model_);
  }
  /// Resets the dataflow for some cycles. Drops the frames in it.
  void reset();

  /// Loads the dataflow's constants, with a reset before and after. Drops the frames in the dataflow. If the design
  /// has load_words, this call is required before the first frame. Returns kCorrupt if the number of bytes is wrong.
  Status load_constants(std::span<const std::byte> words);
  /// Begins to load constants in steps. `words` must stay valid until load_more() returns true. Until then,
  /// only load_more() may advance the clock.
  Status begin_load(std::span<const std::byte> words);
  /// Continues a load for at most `cycles` cycles; returns whether it is complete. Returns kInternal if an assertion
  /// failed; the tables then contain a mixture of old and new constants.
  Result<bool> load_more(std::uint64_t cycles);
  /// Sets the memory of streamed weights: design().streamed_bytes bytes, which the caller keeps and resets do not
  /// change. If weights are streamed, this call is required before the first frame. Returns kCorrupt if the number of
  /// bytes is wrong.
  Status hold_weights(std::span<const std::byte> bytes);
  /// Makes the memory of streamed weights stall at random.
  void stall_memory(double probability, std::uint64_t seed);

  /// Returns the first SystemVerilog assertion that failed, or a message that weights were read outside the memory.
  /// Returns an empty text if neither happened.
  std::string failure() const;
  /// Returns the largest number of words that a stream's FIFO has held since the last reset.
  std::uint64_t high_water(std::size_t stream) const { return *streams_[stream].high_water; }
  /// Returns the cycles since the last reset in which a layer's multipliers took operands, as counted in the
  /// model. For a layer with several units, returns their mean.
  double busy_cycles(std::size_t layer) const;
  /// The state of a stream's FIFO. kFull means that the FIFO is full. kWaiting means that the FIFO holds data that its
  /// reader does not take.
  enum class StreamState { kFlowing, kEmpty, kWaiting, kFull };
  StreamState state(std::size_t stream) const;

 private:
  Simulation() = default;
  Status load(const std::filesystem::path& library, std::uint64_t seed);

  Design design_;
  std::vector<abi::Port> inputs_, outputs_;
  std::optional<MemoryModel> memory_;  // memory of streamed weights
  abi::Weights weights_{};
  abi::Port load_{};  // load_.valid is null if the design loads no constants
  std::span<const std::byte> loading_;
  std::uint64_t load_cycle_ = 0;  // cycles since the current load began
  std::vector<abi::Stream> streams_;
  std::vector<abi::Unit> units_;  // units of all layers, in the layers' order
  void* library_ = nullptr;
  void* model_ = nullptr;
  abi::Close* close_ = nullptr;
  abi::Reset* reset_ = nullptr;
  abi::Settle* settle_ = nullptr;
  abi::Tick* tick_ = nullptr;
  abi::Failure* failure_ = nullptr;
};

}  // namespace millrace::runtime::rtl
