#include "server/udp/sample.hpp"

#include <string>

namespace millrace::server::udp {
namespace {

std::string_view help(Event event) {
  switch (event) {
    case Event::kDatagramsReceived:
      return "Datagrams received over UDP, good or bad";
    case Event::kDatagramsSent:
      return "Datagrams handed to the kernel";
    case Event::kBytesReceived:
      return "Bytes of the datagrams received, headers included";
    case Event::kBytesSent:
      return "Bytes of the datagrams sent, headers included";
    case Event::kSessionsOpened:
      return "UDP sessions opened";
    case Event::kSessionsClosed:
      return "UDP sessions closed for idleness";
    case Event::kRequests:
      return "Whole UDP requests handed to a pipeline";
    case Event::kResponses:
      return "UDP requests answered with a response, repetitions not counted";
    case Event::kFailures:
      return "UDP requests that failed in a pipeline";
    case Event::kRepeated:
      return "Answers sent again because a client asked again";
    case Event::kAcks:
      return "Acknowledgements of requests being computed";
    case Event::kNacksSent:
      return "Demands for missing fragments of requests";
    case Event::kNacksReceived:
      return "Demands of clients for missing fragments of responses";
    case Event::kForgotten:
      return "Half-received requests given up";
    case Event::kEvicted:
      return "Kept responses given up for want of memory";
  }
  return "";
}

}  // namespace

void sample(const Counters& counters, metrics::Samples& samples) {
  for (std::size_t i = 0; i < kEvents; ++i) {
    const auto event = static_cast<Event>(i);
    samples.counter("millrace_udp_" + std::string(to_string(event)) + "_total", help(event), {},
                    static_cast<double>(counters.get(event)));
  }
  counters.each_drop([&](std::string_view reason, std::uint64_t n) {
    samples.counter("millrace_udp_dropped_datagrams_total", "Datagrams dropped without an answer",
                    {{"reason", std::string(reason)}}, static_cast<double>(n));
  });
  counters.each_error([&](std::string_view reason, std::uint64_t n) {
    samples.counter("millrace_udp_errors_total", "ERR datagrams sent", {{"reason", std::string(reason)}},
                    static_cast<double>(n));
  });
  counters.each_busy([&](std::string_view reason, std::uint64_t n) {
    samples.counter("millrace_udp_busy_total", "BUSY datagrams sent", {{"reason", std::string(reason)}},
                    static_cast<double>(n));
  });
}

}  // namespace millrace::server::udp
