// Faults of a network, for emulated cables and tests: datagrams that are lost, repeated, reordered, damaged or delayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "runtime/link/channel.hpp"

namespace millrace::runtime::link {

/// What a network does to the datagrams that pass through it in one direction. Probabilities are 0 to 1.
struct Impairment {
  double loss = 0;        // probability that a datagram is lost
  double duplicate = 0;   // probability that a datagram arrives twice
  double reorder = 0;     // probability that a datagram is delayed by up to 1 ms more than others
  double bit_errors = 0;  // probability that a bit is inverted
  std::chrono::nanoseconds latency{0};  // delay of every datagram
  double gigabits_per_second = 0;       // rate at which datagrams pass; 0: unlimited
  bool outage = false;                  // whether every datagram is lost

  /// Whether datagrams pass unchanged and without delay.
  bool is_none() const { return *this == Impairment{}; }
  bool operator==(const Impairment&) const = default;
};

/// Applies an Impairment to datagrams. One thread at a time may use an Impairer.
class Impairer {
 public:
  explicit Impairer(std::uint64_t seed) : random_(seed) {}

  /// Changes what happens to datagrams that are accepted from now on. Datagrams that still wait for the limited rate
  /// pass at the new rate. An outage drops the datagrams that are already on their way.
  void set(const Impairment& impairment, Time now);
  const Impairment& impairment() const { return impairment_; }

  /// Accepts a datagram and copies it, unless it is lost. Beyond kMostWaiting datagrams on their way, further ones are
  /// lost, as in a router whose queue is full.
  void accept(std::span<const std::byte> datagram, Time now);

  /// Returns the next datagram that leaves the network by `now`, or an empty span. The bytes are valid until the next
  /// call of a function that is not const.
  std::span<const std::byte> next(Time now);
  /// Returns the time at which the next datagram leaves the network; Time::max() if none is on its way.
  Time next_time() const;

  static constexpr std::size_t kMostWaiting = 4096;

 private:
  struct Waiting {
    Time leaves;
    std::uint64_t order;  // datagrams that leave at the same time keep their order
    Time passes;          // when the datagram has passed at the limited rate; it leaves later by its delay
    bool repeated;  // whether this is the second copy of a datagram, which takes no time at the limited rate
    std::vector<std::byte> bytes;
  };
  static bool leaves_later(const Waiting& a, const Waiting& b);
  bool happens(double probability);
  void damage(std::vector<std::byte>& bytes);
  void enqueue(std::span<const std::byte> datagram, Time passes, bool repeated);
  Time pass(std::size_t bytes, Time now);

  Impairment impairment_;
  std::mt19937_64 random_;
  std::vector<Waiting> waiting_;  // heap; the datagram that leaves first is at the front
  std::vector<std::byte> leaving_;
  std::uint64_t order_ = 0;
  Time free_at_;  // when the last accepted datagram has passed at the limited rate
};

}  // namespace millrace::runtime::link
