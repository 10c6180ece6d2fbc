// Adds the metrics of the process and of Triton to the metrics page. Internal to server/metrics, because this header
// uses prometheus-cpp's types.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "server/metrics/metrics.hpp"

namespace millrace::server::metrics {

/// Reports the resources that this process uses, under the names common to all Prometheus client libraries, such as
/// process_cpu_seconds_total. Omits values that /proc does not show.
void sample_process(Samples& samples);

/// Adds the metrics nv_inference_* of Triton Inference Server. Their values are computed from the series in `families`.
void append_triton(std::vector<prometheus::MetricFamily>& families);

}  // namespace millrace::server::metrics
