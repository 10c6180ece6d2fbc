#include "server/udp/counters.hpp"

#include <string>

namespace millrace::server::udp {

void sample(const Counters& counters, metrics::Samples& samples) {
  for (std::size_t i = 0; i < kEvents.size(); ++i)
    samples.counter("millrace_udp_" + std::string(kEvents[i].name) + "_total", kEvents[i].help, {},
                    static_cast<double>(counters.get(static_cast<Event>(i))));
  // Reports one sample per reason. `first` is the first value of the enumeration that is a reason.
  const auto by_reason = [&]<class Kind>(const char* metric, const char* help, const auto& names,
                                         Kind first) {
    for (auto i = static_cast<std::size_t>(first); i < names.size(); ++i)
      samples.counter(metric, help, {{"reason", std::string(names[i])}},
                      static_cast<double>(counters.get(static_cast<Kind>(i))));
  };
  constexpr char kDropped[] = "millrace_udp_dropped_datagrams_total";
  constexpr char kDroppedHelp[] = "Datagrams dropped without an answer";
  by_reason(kDropped, kDroppedHelp, wire::kRefusalNames, wire::Refusal::kTooShort);
  by_reason(kDropped, kDroppedHelp, kDropNames, Drop::kTag);
  by_reason("millrace_udp_errors_total", "ERR datagrams sent", wire::kErrNames, wire::ErrCode::kMalformed);
  by_reason("millrace_udp_busy_total", "BUSY datagrams sent", wire::kBusyNames, wire::BusyReason::kQueue);
}

}  // namespace millrace::server::udp
