#include "server/models/swap_gate.hpp"

#include <utility>

#include "server/models/model.hpp"

namespace millrace::server::models {

using runtime::pipeline::Frame;

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
    return Error(ErrorCode::kUnavailable, "version '" + next_->version() + "' of model '" + before->name() +
                                              "' came up with other inputs or outputs while the request " +
                                              "waited; ask for the model's metadata again");
  // Once the frame is submitted, its owner and this gate may be gone at any moment.
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
