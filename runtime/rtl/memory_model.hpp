// Models the card's memory for readers of weights, in simulated time. Each AXI4 read port gets its bursts
// answered in order: one word per clock at most, the first one a latency after its address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "runtime/rtl/abi.hpp"

namespace millrace::runtime::rtl {

/// One thread.
class MemoryModel {
 public:
  /// `latency_cycles`: from a burst's address to its first word.
  MemoryModel(std::vector<abi::ReadPort> ports, std::uint64_t latency_cycles)
      : ports_(ports.begin(), ports.end()), latency_(latency_cycles) {}

  std::uint64_t latency() const { return latency_; }
  /// Sets the content at kBase. The bytes stay the caller's. Reads outside them are answered with an error.
  void hold(std::span<const std::byte> content) { content_ = content; }
  static constexpr std::uint64_t kBase = 0x1'0000'0000;

  /// Holds back each address and each word with this probability in each clock.
  void stall(double probability, std::uint64_t seed);

  /// Offers this clock's signals to the ports. Call it before combinational logic settles; repeated calls in
  /// a clock do the same.
  void drive();
  /// Records what the ports took and requested. Call it after logic has settled and before the clock rises.
  void sample();
  /// Forgets all bursts under way.
  void reset();

 private:
  struct Burst {
    std::uint64_t address = 0, words = 0, due = 0;
  };
  struct Port {
    explicit Port(const abi::ReadPort& wires) : signals(wires) {}
    abi::ReadPort signals;
    std::deque<Burst> bursts;
    bool offered = false;                          // a word is offered and stays until it is taken
    bool hold_address = false, hold_word = false;  // held back in this clock
  };

  bool chance() { return threshold_ != 0 && random_() < threshold_; }

  std::vector<Port> ports_;
  const std::uint64_t latency_;
  std::span<const std::byte> content_;
  std::uint64_t threshold_ = 0, now_ = 0;
  std::mt19937_64 random_;
};

}  // namespace millrace::runtime::rtl
