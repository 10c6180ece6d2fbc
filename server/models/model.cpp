#include "server/models/model.hpp"

#include <array>
#include <utility>

namespace millrace::server::models {

using runtime::pipeline::Frame;

std::string_view to_string(ModelState state) {
  constexpr std::array<std::string_view, 5> kNames = {"UNKNOWN", "READY", "UNAVAILABLE", "LOADING",
                                                      "UNLOADING"};
  return kNames[static_cast<std::size_t>(state)];
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
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::lock_guard lock(statistics_mutex_);
  statistics_.last_inference_unix_ms =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  ++statistics_.successes;
  statistics_.succeeded.request += times.request;
  statistics_.succeeded.queue += times.queue;
  statistics_.succeeded.input += times.input;
  statistics_.succeeded.compute += times.compute;
  statistics_.succeeded.output += times.output;
}

void Model::failed(metrics::Transport transport, ErrorCode reason, std::chrono::nanoseconds request) {
  metrics_->failed(transport, reason, request);
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.failures;
  statistics_.failed += request;
}

void Model::refused(metrics::Transport transport, ErrorCode reason) {
  metrics_->refused(transport, reason);
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.failures;
  ++statistics_.refused;
}

SwapGate::SwapGate(const Model& before, std::shared_ptr<Model> next)
    : same_deployment_(next->deployment().digest == before.deployment().digest), next_(std::move(next)) {}

Status SwapGate::submit(Frame& frame) {
  auto* const passage = static_cast<Passage*>(frame.passage);
  if (passage == nullptr) {
    if (same_deployment_) return next_->pipeline().submit(frame);
    return Error(ErrorCode::kUnavailable, "the version was replaced by version '" + next_->version() + "'");
  }
  const std::shared_ptr<Model> before = passage->model;
  if (!passage->any_version && next_->version() != before->version())
    return Error(ErrorCode::kNotFound, "model '" + before->name() + "' has no version '" + before->version() +
                                           "' any more; it has " + next_->version());
  if (next_->info().inputs != before->info().inputs || next_->info().outputs != before->info().outputs)
    return Error(ErrorCode::kUnavailable,
                 "version '" + next_->version() + "' of model '" + before->name() +
                     "' started with different inputs or outputs while the request waited; "
                     "ask for the model's metadata again");
  // Once the frame is submitted, its owner and this gate may be destroyed at any moment.
  const std::shared_ptr<Model> next = next_;
  passage->model = next;
  next->begun();
  Status taken = next->pipeline().submit(frame);
  if (taken.ok()) {
    before->passed_on();
  } else {
    passage->model->passed_on();
    passage->model = before;
  }
  return taken;
}

void SwapGate::cancel(Frame& frame) {
  next_->pipeline().cancel(frame);
}

}  // namespace millrace::server::models
