// What the process itself uses, under the names every Prometheus client library gives it.
#pragma once

#include "server/metrics/metrics.hpp"

namespace millrace::server::metrics {

/// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_threads,
/// process_open_fds, process_max_fds, process_start_time_seconds. What /proc does not tell is left out.
void sample_process(Samples& samples);

}  // namespace millrace::server::metrics
