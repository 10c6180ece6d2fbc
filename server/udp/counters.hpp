// What the UDP side counts. Every member only grows. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/udp/wire/header.hpp"
#include "server/udp/wire/messages.hpp"

namespace millrace::server::udp {

/// Why a datagram was dropped without an answer, beyond what wire::Refusal says.
enum class Drop {
  kTag,            // none, unknown key or wrong
  kUnexpected,     // a type only servers send, or the server's direction bit
  kBody,           // HELLO, NACK or PING body that contradicts itself
  kAmplification,  // the answer would have been longer than the datagram, to an address not known yet
  kUnasked,        // not fragment 0 of a request that is not being received
  kKernel,         // the kernel's queue was full (SO_RXQ_OVFL)
  kSend,           // the kernel did not take what was to be sent
};
inline constexpr std::size_t kDrops = 7;

constexpr std::string_view to_string(Drop drop) {
  constexpr std::array<std::string_view, kDrops> names{"tag",     "unexpected", "body", "amplification",
                                                       "unasked", "kernel",     "send"};
  return names[static_cast<std::size_t>(drop)];
}

enum class Event {
  kDatagramsReceived,
  kDatagramsSent,
  kBytesReceived,
  kBytesSent,
  kSessionsOpened,
  kSessionsClosed,
  kRequests,   // whole requests handed to a pipeline
  kResponses,  // answered with RSP, repetitions not counted
  kFailures,   // answered with ERR after they were handed to a pipeline
  kRepeated,   // RSP or ERR sent again
  kAcks,
  kNacksSent,
  kNacksReceived,
  kForgotten,  // half-received requests given up
  kEvicted,    // kept responses given up before the window passed them
};
inline constexpr std::size_t kEvents = 15;

constexpr std::string_view to_string(Event event) {
  constexpr std::array<std::string_view, kEvents> names{
      "datagrams_received", "datagrams_sent",  "bytes_received", "bytes_sent",
      "sessions_opened",    "sessions_closed", "requests",       "responses",
      "failures",           "repeated",        "acks",           "nacks_sent",
      "nacks_received",     "forgotten",       "evicted"};
  return names[static_cast<std::size_t>(event)];
}

class Counters {
 public:
  void count(Event event, std::uint64_t by = 1) { add(events_[static_cast<std::size_t>(event)], by); }
  void count(Drop drop, std::uint64_t by = 1) { add(drops_[static_cast<std::size_t>(drop)], by); }
  void count(wire::Refusal refusal) { add(refusals_[static_cast<std::size_t>(refusal)], 1); }
  void count(wire::ErrCode code) { add(errors_[static_cast<std::size_t>(code)], 1); }
  void count(wire::BusyReason reason) { add(busy_[static_cast<std::size_t>(reason)], 1); }

  std::uint64_t get(Event event) const {
    return events_[static_cast<std::size_t>(event)].load(std::memory_order_relaxed);
  }
  std::uint64_t get(Drop drop) const {
    return drops_[static_cast<std::size_t>(drop)].load(std::memory_order_relaxed);
  }
  std::uint64_t get(wire::Refusal refusal) const {
    return refusals_[static_cast<std::size_t>(refusal)].load(std::memory_order_relaxed);
  }
  std::uint64_t get(wire::ErrCode code) const {
    return errors_[static_cast<std::size_t>(code)].load(std::memory_order_relaxed);
  }
  std::uint64_t get(wire::BusyReason reason) const {
    return busy_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }

  /// f(reason, count) for everything dropped.
  template <class F>
  void each_drop(F&& f) const {
    for (std::size_t i = 1; i < wire::kRefusals; ++i)
      f(to_string(static_cast<wire::Refusal>(i)), get(static_cast<wire::Refusal>(i)));
    for (std::size_t i = 0; i < kDrops; ++i) f(to_string(static_cast<Drop>(i)), get(static_cast<Drop>(i)));
  }

  /// The same for every ERR and BUSY sent.
  template <class F>
  void each_error(F&& f) const {
    for (std::size_t i = 1; i < errors_.size(); ++i)
      f(to_string(static_cast<wire::ErrCode>(i)), get(static_cast<wire::ErrCode>(i)));
  }
  template <class F>
  void each_busy(F&& f) const {
    for (std::size_t i = 1; i < busy_.size(); ++i)
      f(to_string(static_cast<wire::BusyReason>(i)), get(static_cast<wire::BusyReason>(i)));
  }

 private:
  using Cell = std::atomic<std::uint64_t>;
  static void add(Cell& cell, std::uint64_t by) { cell.fetch_add(by, std::memory_order_relaxed); }

  std::array<Cell, kEvents> events_{};
  std::array<Cell, kDrops> drops_{};
  std::array<Cell, wire::kRefusals> refusals_{};
  std::array<Cell, 11> errors_{};  // by code; 0 unused
  std::array<Cell, 6> busy_{};     // by reason; 0 unused
};

}  // namespace millrace::server::udp
