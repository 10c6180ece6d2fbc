// What the sender and the receiver of a channel have in common: settings, timers, states and counters.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/link/datagram.hpp"

namespace millrace::runtime::link {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

/// The timers of a channel. README.md explains how they work together.
struct Timing {
  std::chrono::microseconds least_repeat{4'000};  // shortest time after which a packet is sent again
  std::chrono::microseconds most_repeat{20'000};  // longest such time
  std::chrono::microseconds state_delay{
      1'000};                                 // longest time for which a receiver keeps its state to itself
  std::chrono::milliseconds keepalive{250};   // time between the greetings of an idle channel
  std::chrono::milliseconds silence{80};      // after this time without an answer, the link is lost
  std::chrono::milliseconds degraded{1'000};  // a link is degraded for this time after a repair

  /// An end that was silent for this time has stopped: a working sender sends a greeting at least every `keepalive`, and
  /// a receiver answers it. No network delays a datagram so long.
  std::chrono::milliseconds stopped() const { return 3 * keepalive + silence; }
  bool operator==(const Timing&) const = default;
};

/// Settings of a channel. Both ends must have the same `id`, `packet_bytes` and `credits`.
struct ChannelSettings {
  ChannelId id;
  std::uint32_t packet_bytes = 0;  // 1 to kMostPayloadBytes
  std::uint32_t credits = 0;       // 1 to kMostCredits
  Timing timing;

  /// Whether the sizes and credits are within the limits that a sender and a receiver support.
  bool are_valid() const {
    return packet_bytes >= 1 && packet_bytes <= kMostPayloadBytes && credits >= 1 && credits <= kMostCredits;
  }
};

enum class LinkState : std::uint8_t {
  kDown,      // out of service
  kTraining,  // in service, but the other end has not answered yet
  kUp,        // the other end answers
  kDegraded,  // the other end answers, but packets had to be repaired recently
  kLost,      // the other end answered before, and does not answer now
};

/// Returns "down", "training", "up", "degraded" or "lost".
constexpr const char* to_string(LinkState state) {
  switch (state) {
    case LinkState::kDown:
      return "down";
    case LinkState::kTraining:
      return "training";
    case LinkState::kUp:
      return "up";
    case LinkState::kDegraded:
      return "degraded";
    case LinkState::kLost:
      return "lost";
  }
  return "";
}

/// How the other end violated the protocol. Damaged and delayed datagrams never look like a violation.
enum class Violation : std::uint8_t {
  kNone,
  kSettings,      // the greeting has other packet sizes or credits
  kPacketBytes,   // a packet is longer than the greeting said
  kBeyondCredit,  // a packet was sent without credit
  kUnsent,        // packets are acknowledged that were never sent
  kLimit,         // more credit was given than the greeting said
};

constexpr const char* to_string(Violation violation) {
  switch (violation) {
    case Violation::kNone:
      return "no violation";
    case Violation::kSettings:
      return "the sender's packet size or number of credits differs from the receiver's";
    case Violation::kPacketBytes:
      return "the sender sent a packet that is longer than its greeting said";
    case Violation::kBeyondCredit:
      return "the sender sent a packet without credit";
    case Violation::kUnsent:
      return "the receiver acknowledged a packet that was never sent";
    case Violation::kLimit:
      return "the receiver gave more credit than the plan allows";
  }
  return "";
}

/// Datagrams that were dropped, by reason.
struct Drops {
  std::uint64_t damaged = 0;     // a CRC was wrong
  std::uint64_t malformed = 0;   // no valid datagram of a link
  std::uint64_t address = 0;     // from an address that the plan does not name
  std::uint64_t endpoint = 0;    // from or to an endpoint that the plan does not name here
  std::uint64_t tag = 0;         // with a tag that no channel here has
  std::uint64_t generation = 0;  // from an earlier time in service of the sender or the receiver
  std::uint64_t epoch = 0;       // from another epoch
  std::uint64_t duplicate = 0;   // had arrived before
  std::uint64_t violation = 0;   // violated the protocol

  Drops& operator+=(const Drops& other) {
    damaged += other.damaged;
    malformed += other.malformed;
    address += other.address;
    endpoint += other.endpoint;
    tag += other.tag;
    generation += other.generation;
    epoch += other.epoch;
    duplicate += other.duplicate;
    violation += other.violation;
    return *this;
  }
};

}  // namespace millrace::runtime::link
