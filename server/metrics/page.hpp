// The parts of the metrics page that metrics.cpp does not count itself. Internal to this folder, because it
// shows prometheus-cpp's types.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics/metrics.hpp"

namespace millrace::server::metrics {

/// Reports what the process itself uses, under the names common to all Prometheus client libraries:
/// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_threads,
/// process_open_fds, process_max_fds, process_start_time_seconds. Values that /proc does not show are left
/// out.
void sample_process(Samples& samples);

/// Adds nv_inference_*, the metrics of Triton Inference Server, with values computed from the series in
/// `families`.
void append_triton(std::vector<prometheus::MetricFamily>& families);

}  // namespace millrace::server::metrics
