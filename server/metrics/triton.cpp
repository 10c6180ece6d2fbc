#include "server/metrics/triton.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace millrace::server::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::vector<ClientMetric::Label> labels_of(const TritonModel& model) {
  return {{"model", model.name}, {"version", model.version}};
}

/// Triton's reasons: what it never took, what the client took back, what failed behind it.
const char* reason_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kResourceExhausted:
      return "REJECTED";
    case ErrorCode::kCancelled:
      return "CANCELED";
    case ErrorCode::kUnavailable:
    case ErrorCode::kInternal:
      return "BACKEND";
    default:
      return "OTHER";
  }
}

MetricFamily counters(const char* name, const char* help, const std::vector<TritonModel>& models,
                      const std::function<double(const TritonModel&)>& value) {
  MetricFamily family{name, help, MetricType::Counter, {}};
  for (const TritonModel& model : models) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label = labels_of(model);
    metric.counter.value = value(model);
  }
  return family;
}

MetricFamily failures(const std::vector<TritonModel>& models) {
  MetricFamily family{
      "nv_inference_request_failure", "Number of failed inference requests", MetricType::Counter, {}};
  for (const TritonModel& model : models) {
    std::map<std::string, double> by_reason;
    for (const auto& [code, count] : model.failures) by_reason[reason_of(code)] += count;
    for (const auto& [reason, count] : by_reason) {
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = labels_of(model);
      metric.label.push_back({"reason", reason});
      metric.counter.value = count;
    }
  }
  return family;
}

MetricFamily durations(const char* name, const char* help, const std::vector<TritonModel>& models,
                       double TritonModel::*seconds) {
  return counters(name, help, models, [seconds](const TritonModel& model) { return model.*seconds * 1e6; });
}

}  // namespace

void append_triton(const std::vector<TritonModel>& models, std::vector<MetricFamily>& families) {
  if (models.empty()) return;
  const auto successes = [](const TritonModel& model) { return model.successes; };
  std::vector<MetricFamily> more = {
      counters("nv_inference_request_success", "Number of successful inference requests", models, successes),
      failures(models),
      counters("nv_inference_count", "Number of inferences performed", models, successes),
      counters("nv_inference_exec_count", "Number of model executions performed", models, successes),
      durations("nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
                models, &TritonModel::request_seconds),
      durations("nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds",
                models, &TritonModel::queue_seconds),
      durations("nv_inference_compute_input_duration_us", "Cumulative compute input duration in microseconds",
                models, &TritonModel::input_seconds),
      durations("nv_inference_compute_infer_duration_us",
                "Cumulative compute inference duration in microseconds", models,
                &TritonModel::compute_seconds),
      durations("nv_inference_compute_output_duration_us",
                "Cumulative inference compute output duration in microseconds", models,
                &TritonModel::output_seconds)};
  const auto depth = std::find_if(families.begin(), families.end(), [](const MetricFamily& family) {
    return family.name == "millrace_queue_depth";
  });
  if (depth != families.end()) {
    MetricFamily pending = *depth;
    pending.name = "nv_inference_pending_request_count";
    pending.help = "Instantaneous number of pending requests awaiting execution";
    more.push_back(std::move(pending));
  }
  for (MetricFamily& family : more) families.push_back(std::move(family));
}

}  // namespace millrace::server::metrics
