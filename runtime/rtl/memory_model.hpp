// The card's memory as the readers of weights see it in simulated time: each AXI4 read port has its bursts
// answered in order, a word a clock at most, the first one a latency after it was asked for.
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
  /// What is read at kBase; stays the caller's. Bytes outside of it are answered with an error.
  void hold(std::span<const std::byte> content) { content_ = content; }
  static constexpr std::uint64_t kBase = 0x1'0000'0000;

  /// Each address and each word is held back with this probability, clock by clock.
  void stall(double probability, std::uint64_t seed);

  /// What the ports are offered in this clock: before the model settles, the same however often it is called.
  void drive();
  /// What they took and asked for: after it settled, before the clock rises.
  void sample();
  /// Forgets bursts under way.
  void reset();

 private:
  struct Burst {
    std::uint64_t address = 0, words = 0, due = 0;
  };
  struct Port {
    explicit Port(const abi::ReadPort& wires) : signals(wires) {}
    abi::ReadPort signals;
    std::deque<Burst> bursts;
    bool offered = false;                          // a word, which then stays
    bool hold_address = false, hold_word = false;  // in this clock
  };

  bool chance() { return threshold_ != 0 && random_() < threshold_; }

  std::vector<Port> ports_;
  const std::uint64_t latency_;
  std::span<const std::byte> content_;
  std::uint64_t threshold_ = 0, now_ = 0;
  std::mt19937_64 random_;
};

}  // namespace millrace::runtime::rtl
