#include "server/http/infer/inference.hpp"

#include <utility>

#include "server/http/infer/infer_response.hpp"
#include "server/http/infer/tensor.hpp"

namespace millrace::server::http {

constexpr auto kHttp = metrics::Transport::kHttp;

void Inference::prepare(std::shared_ptr<models::Model> model, bool any_version, std::uint64_t client,
                        Clock::time_point arrival, Clock::time_point deadline) {
  model_ = std::move(model);
  passage_ = {model_, any_version};
  arrival_ = arrival;
  frame_.inputs.assign(request_.inputs.begin(), request_.inputs.end());
  const auto& signatures = model_->info().outputs;
  outputs_.resize(signatures.size());
  frame_.outputs.clear();
  for (std::size_t i = 0; i < signatures.size(); ++i) {
    outputs_[i].resize(bytes_of(signatures[i]));
    frame_.outputs.emplace_back(outputs_[i]);
  }
  frame_.deadline = deadline;
  frame_.priority = request_.priority;
  frame_.client = client;
}

Status Inference::start(Done done, void* context) {
  frame_.on_complete = done;
  frame_.context = context;
  // Count the request first: once submit() is called, the frame may complete and this object be destroyed at any time.
  model_->begun();
  const std::shared_ptr<models::Model> model = model_;
  const Status status = model->submit(frame_, passage_);
  if (!status.ok()) model->not_taken(kHttp, status.error().code());
  return status;
}

void Inference::cancel() {
  model_->pipeline().cancel(frame_);
}

Response Inference::finish() {
  const auto elapsed = [&] { return std::chrono::nanoseconds(Clock::now() - arrival_); };
  models::Model& served = *passage_.model;
  if (!frame_.status.ok()) {
    served.failed(kHttp, frame_.status.error().code(), elapsed());
    return error_response(frame_.status.error(), served.pipeline().retry_after());
  }
  auto response = write_infer_response(served.info(), served.name(), served.version(), request_,
                                       frame_.outputs, scratch_, std::move(answer_));
  if (!response) {
    served.failed(kHttp, response.error().code(), elapsed());
    return error_response(response.error());
  }
  const auto& times = frame_.times;
  served.succeeded(kHttp, {elapsed(), times.queue, times.input, times.compute, times.output});
  return std::move(response).value();
}

void Inference::recycle() {
  model_.reset();
  passage_ = {};
  frame_.status = {};
  scratch_.clear();
  request_.converted.clear();
}

std::size_t Inference::kept_bytes() const {
  std::size_t bytes = sizeof *this + answer_.body.capacity() + request_.id.capacity();
  for (const auto& output : outputs_) bytes += output.capacity();
  return bytes;
}

InferencePool::Lease InferencePool::take() {
  if (free_.empty()) return Lease(new Inference, {this});
  Lease out(free_.back().release(), {this});
  free_.pop_back();
  free_bytes_ -= out->kept_bytes();
  return out;
}

void InferencePool::give_back(Inference* inference) {
  std::unique_ptr<Inference> owned(inference);
  owned->recycle();
  const std::size_t bytes = owned->kept_bytes();
  if (free_.size() == kMost || free_bytes_ + bytes > kMostBytes) return;
  free_bytes_ += bytes;
  free_.push_back(std::move(owned));
}

}  // namespace millrace::server::http
