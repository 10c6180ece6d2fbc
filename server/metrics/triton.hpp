// The names Triton Inference Server gives its metrics, for dashboards made for it. Internal to the folder: it
// shows prometheus-cpp's types.
#pragma once

#include <prometheus/metric_family.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::metrics {

/// One model version's counters.
struct TritonModel {
  std::string name, version;
  double successes = 0;
  std::map<ErrorCode, double> failures;
  double request_seconds = 0, queue_seconds = 0, input_seconds = 0, compute_seconds = 0, output_seconds = 0;
};

/// Adds nv_inference_*. `families` holds millrace_queue_depth where it is known.
void append_triton(const std::vector<TritonModel>& models, std::vector<prometheus::MetricFamily>& families);

}  // namespace millrace::server::metrics
