#include "server/models/model.hpp"

#include <array>
#include <utility>

namespace millrace::server::models {

std::string_view to_string(ModelState state) {
  constexpr std::array<std::string_view, 5> kNames = {"UNKNOWN", "READY", "UNAVAILABLE", "LOADING",
                                                      "UNLOADING"};
  return kNames[static_cast<std::size_t>(state)];
}

void Statistics::succeeded(const metrics::RequestTimes& times) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  last_inference_unix_ms_.store(
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()),
      std::memory_order_relaxed);
  success_.add(times.request);
  queue_.add(times.queue);
  input_.add(times.input);
  compute_.add(times.compute);
  output_.add(times.output);
}

void Statistics::failed(std::chrono::nanoseconds request) {
  fail_.add(request);
}

void Statistics::refused() {
  failed(std::chrono::nanoseconds(0));
  refused_.fetch_add(1, std::memory_order_relaxed);
}

Statistics::Snapshot Statistics::snapshot() const {
  Snapshot out;
  out.last_inference_unix_ms = last_inference_unix_ms_.load(std::memory_order_relaxed);
  out.success = success_.read();
  out.fail = fail_.read();
  out.queue = queue_.read();
  out.input = input_.read();
  out.compute = compute_.read();
  out.output = output_.read();
  out.inferences = out.success.count;
  out.refused = refused_.load(std::memory_order_relaxed);
  return out;
}

Model::Model(std::string name, std::string version, std::shared_ptr<runtime::pipeline::Pipeline> pipeline,
             std::shared_ptr<metrics::ModelMetrics> metrics, std::uint32_t waiting)
    : name_(std::move(name)),
      version_(std::move(version)),
      pipeline_(std::make_unique<runtime::pipeline::Dispatcher>(std::move(pipeline), waiting)),
      quantised_(runtime::plan::quantised_inputs(pipeline_->deployment())),
      metrics_(std::move(metrics)) {}

void Model::succeeded(metrics::Transport transport, const metrics::RequestTimes& times) {
  metrics_->succeeded(transport, times);
  statistics_.succeeded(times);
}

void Model::failed(metrics::Transport transport, ErrorCode reason, std::chrono::nanoseconds request) {
  metrics_->failed(transport, reason, request);
  statistics_.failed(request);
}

void Model::refused(metrics::Transport transport, ErrorCode reason) {
  metrics_->refused(transport, reason);
  statistics_.refused();
}

}  // namespace millrace::server::models
