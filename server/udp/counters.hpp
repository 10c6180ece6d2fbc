// The counters of the UDP listener, which only ever increase. Any thread may use them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "server/metrics/metrics.hpp"
#include "server/udp/wire/header.hpp"
#include "server/udp/wire/messages.hpp"

namespace millrace::server::udp {

/// Reasons for which a datagram is dropped without an answer. wire::Refusal has the reasons that parsing finds.
enum class Drop {
  kTag,            // the tag is missing or wrong, or its key is unknown
  kUnexpected,     // the datagram's type or direction bit is one that only servers send
  kBody,           // the body of a HELLO, NACK or PING contradicts itself
  kAmplification,  // the answer to an unproved address would be longer than the datagram
  kUnasked,        // a later fragment of a request that is not being received
  kKernel,         // the kernel's queue was full (SO_RXQ_OVFL)
  kSend,           // the kernel refused to send the answer
};
inline constexpr std::array<std::string_view, 7> kDropNames = {
    "tag", "unexpected", "body", "amplification", "unasked", "kernel", "send"};

enum class Event {
  kDatagramsReceived,
  kDatagramsSent,
  kBytesReceived,
  kBytesSent,
  kSessionsOpened,
  kSessionsClosed,
  kRequests,
  kResponses,
  kFailures,
  kRepeated,
  kAcks,
  kNacksSent,
  kNacksReceived,
  kForgotten,
  kEvicted,
};

/// The name and help text of an event's metric. The metric is called millrace_udp_<name>_total.
struct EventText {
  std::string_view name, help;
};
inline constexpr std::array<EventText, 15> kEvents = {{
    {"datagrams_received", "Datagrams received over UDP, valid or not"},
    {"datagrams_sent", "Datagrams handed to the kernel"},
    {"bytes_received", "Bytes of the datagrams received, headers included"},
    {"bytes_sent", "Bytes of the datagrams sent, headers included"},
    {"sessions_opened", "UDP sessions opened"},
    {"sessions_closed", "UDP sessions closed for idleness"},
    {"requests", "Whole UDP requests handed to a pipeline"},
    {"responses", "UDP requests answered with a response, repetitions not counted"},
    {"failures", "UDP requests that failed in a pipeline"},
    {"repeated", "Answers sent again because a client repeated its request"},
    {"acks", "Acknowledgements of requests being computed"},
    {"nacks_sent", "Requests to clients to resend missing fragments (NACK sent)"},
    {"nacks_received", "Requests of clients to resend missing fragments (NACK received)"},
    {"forgotten", "Partly received requests dropped after a timeout"},
    {"evicted", "Stored responses discarded because memory was short"},
}};

/// One counter for each value of Event, Drop, wire::Refusal, wire::ErrCode and wire::BusyReason.
class Counters {
 public:
  template <class Kind>
  void count(Kind kind, std::uint64_t by = 1) {
    std::get<Cells<Kind>>(cells_)[static_cast<std::size_t>(kind)].fetch_add(by, std::memory_order_relaxed);
  }

  template <class Kind>
  std::uint64_t get(Kind kind) const {
    return std::get<Cells<Kind>>(cells_)[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  template <class Kind>
  struct Cells : std::array<std::atomic<std::uint64_t>, 16> {};

  std::tuple<Cells<Event>, Cells<Drop>, Cells<wire::Refusal>, Cells<wire::ErrCode>, Cells<wire::BusyReason>>
      cells_{};
};
static_assert(kEvents.size() <= 16 && kDropNames.size() <= 16);

/// Reports the metrics millrace_udp_dropped_datagrams_total{reason}, millrace_udp_errors_total{reason},
/// millrace_udp_busy_total{reason}, and for each Event millrace_udp_<event>_total.
void sample(const Counters& counters, metrics::Samples& samples);

}  // namespace millrace::server::udp
