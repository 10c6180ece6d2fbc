// What the page holds beside the series of metrics.cpp. Internal to the folder: it shows prometheus-cpp's
// types.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics/metrics.hpp"

namespace millrace::server::metrics {

/// What the process itself uses, under the names that every Prometheus client library gives it:
/// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_threads,
/// process_open_fds, process_max_fds, process_start_time_seconds. Values that /proc does not tell are left
/// out.
void sample_process(Samples& samples);

/// Adds nv_inference_*, the names of Triton Inference Server, with values computed from the series of
/// `families`.
void append_triton(std::vector<prometheus::MetricFamily>& families);

}  // namespace millrace::server::metrics
