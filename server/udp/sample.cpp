#include "server/udp/sample.hpp"

#include <string>

namespace millrace::server::udp {
namespace {

/// f(name, count) for the kinds `first`, `first` + 1, … with these names.
template <class Kind, std::size_t kSize, class F>
void each(const Counters& counters, const std::array<std::string_view, kSize>& names, std::size_t first,
          F&& f) {
  for (std::size_t i = first; i < kSize; ++i) f(names[i], counters.get(static_cast<Kind>(i)));
}

template <class F>
void each_drop(const Counters& counters, F&& f) {
  each<wire::Refusal>(counters, wire::kRefusalNames, 1, f);
  each<Drop>(counters, kDropNames, 0, f);
}

}  // namespace

void sample(const Counters& counters, metrics::Samples& samples) {
  for (std::size_t i = 0; i < kEvents.size(); ++i)
    samples.counter("millrace_udp_" + std::string(kEvents[i].name) + "_total", kEvents[i].help, {},
                    static_cast<double>(counters.get(static_cast<Event>(i))));
  const auto by_reason = [&](const char* metric, const char* help) {
    return [&samples, metric, help](std::string_view reason, std::uint64_t n) {
      samples.counter(metric, help, {{"reason", std::string(reason)}}, static_cast<double>(n));
    };
  };
  each_drop(counters,
            by_reason("millrace_udp_dropped_datagrams_total", "Datagrams dropped without an answer"));
  each<wire::ErrCode>(counters, wire::kErrNames, 1,
                      by_reason("millrace_udp_errors_total", "ERR datagrams sent"));
  each<wire::BusyReason>(counters, wire::kBusyNames, 1,
                         by_reason("millrace_udp_busy_total", "BUSY datagrams sent"));
}

std::uint64_t dropped(const Counters& counters) {
  std::uint64_t all = 0;
  each_drop(counters, [&](std::string_view, std::uint64_t n) { all += n; });
  return all;
}

}  // namespace millrace::server::udp
