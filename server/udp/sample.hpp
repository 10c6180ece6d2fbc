// The UDP counters as Prometheus series.
#pragma once

#include "server/metrics/metrics.hpp"
#include "server/udp/counters.hpp"

namespace millrace::server::udp {

/// millrace_udp_dropped_datagrams_total{reason}, millrace_udp_errors_total{reason},
/// millrace_udp_busy_total{reason} and millrace_udp_<event>_total for each Event.
void sample(const Counters& counters, metrics::Samples& samples);

/// All datagrams dropped without an answer.
std::uint64_t dropped(const Counters& counters);

}  // namespace millrace::server::udp
