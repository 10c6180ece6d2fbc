#include "server/metrics/page.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace millrace::server::metrics {
namespace {

/// Returns the fields of /proc/self/stat from the third on. The second field, the program's name, may contain spaces.
std::optional<std::vector<std::string>> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto close = line.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(close + 1));
  std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  if (fields.size() < 22) return std::nullopt;
  return fields;
}

std::optional<double> boot_time_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime") return file >> value ? std::optional(value) : std::nullopt;
    file.ignore(1 << 20, '\n');
  }
  return std::nullopt;
}

std::optional<double> open_descriptors() {
  std::error_code code;
  const std::filesystem::directory_iterator listing("/proc/self/fd", code);
  if (code) return std::nullopt;
  return static_cast<double>(std::distance(begin(listing), end(listing)) - 1);  // without the listing's own
}

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// A metric of Triton. Its value for a model version is the sum of the version's series in the metric `source`.
struct TritonMetric {
  std::string_view name, help, source;
  std::string_view outcome;  // only series whose label `outcome` has this value are added; empty: all series
};

constexpr std::array<TritonMetric, 10> kMetrics = {{
    {"nv_inference_request_success", "Number of successful inference requests", "millrace_requests_total",
     "success"},
    {"nv_inference_request_failure", "Number of failed inference requests", "millrace_requests_total",
     "failure"},
    {"nv_inference_count", "Number of inferences performed", "millrace_requests_total", "success"},
    {"nv_inference_exec_count", "Number of model executions performed", "millrace_requests_total", "success"},
    {"nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
     "millrace_request_seconds", ""},
    {"nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds",
     "millrace_queue_seconds", ""},
    {"nv_inference_compute_input_duration_us", "Cumulative compute input duration in microseconds",
     "millrace_input_seconds", ""},
    {"nv_inference_compute_infer_duration_us", "Cumulative compute inference duration in microseconds",
     "millrace_compute_seconds", ""},
    {"nv_inference_compute_output_duration_us",
     "Cumulative inference compute output duration in microseconds", "millrace_output_seconds", ""},
    {"nv_inference_pending_request_count", "Instantaneous number of pending requests awaiting execution",
     "millrace_queue_depth", ""},
}};

/// Returns the value of Triton's label `reason` for a value of our label `reason`.
std::string reason_of(std::string_view reason) {
  if (reason == to_string(ErrorCode::kResourceExhausted)) return "REJECTED";
  if (reason == to_string(ErrorCode::kCancelled)) return "CANCELED";
  const bool behind =
      reason == to_string(ErrorCode::kUnavailable) || reason == to_string(ErrorCode::kInternal);
  return behind ? "BACKEND" : "OTHER";
}

MetricFamily family_of(const TritonMetric& metric, const MetricFamily& source) {
  std::map<Labels, double> sums;
  for (const ClientMetric& series : source.metric) {
    std::map<std::string_view, std::string> labels;
    for (const auto& label : series.label) labels[label.name] = label.value;
    if (labels["outcome"] != metric.outcome) continue;
    Labels kept = {{"model", labels["model"]}, {"version", labels["version"]}};
    if (metric.outcome == "failure") kept.emplace_back("reason", reason_of(labels["reason"]));
    // A series is a counter, a gauge or a histogram; the values of the two other kinds are 0.
    sums[kept] += series.counter.value + series.gauge.value + series.histogram.sample_sum * 1e6;
  }
  MetricFamily family{std::string(metric.name), std::string(metric.help), source.type, {}};
  if (family.type == MetricType::Histogram) family.type = MetricType::Counter;
  for (const auto& [labels, sum] : sums) {
    ClientMetric& made = family.metric.emplace_back();
    for (const auto& [name, value] : labels) made.label.push_back({name, value});
    (family.type == MetricType::Gauge ? made.gauge.value : made.counter.value) = sum;
  }
  return family;
}

}  // namespace

void sample_process(Samples& samples) {
  if (const auto fields = stat_fields()) {
    const auto field = [&](int number) { return std::stod((*fields)[static_cast<std::size_t>(number - 3)]); };
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    samples.counter("process_cpu_seconds_total", "User and system processor time.", {},
                    (field(14) + field(15)) / ticks);
    samples.gauge("process_threads", "Threads.", {}, field(20));
    samples.gauge("process_virtual_memory_bytes", "Virtual memory.", {}, field(23));
    samples.gauge("process_resident_memory_bytes", "Resident memory.", {},
                  field(24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
    if (const auto boot = boot_time_seconds())
      samples.gauge("process_start_time_seconds", "Start, as Unix time.", {}, *boot + field(22) / ticks);
  }
  if (const auto open = open_descriptors())
    samples.gauge("process_open_fds", "Open file descriptors.", {}, *open);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    samples.gauge("process_max_fds", "Limit of open file descriptors.", {},
                  static_cast<double>(limit.rlim_cur));
}

void append_triton(std::vector<MetricFamily>& families) {
  std::vector<MetricFamily> more;
  for (const TritonMetric& metric : kMetrics)
    for (const MetricFamily& source : families)
      if (source.name == metric.source && !source.metric.empty()) more.push_back(family_of(metric, source));
  families.insert(families.end(), more.begin(), more.end());
}

}  // namespace millrace::server::metrics
