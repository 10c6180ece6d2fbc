#include "server/http/inference.hpp"

#include <utility>

#include "server/http/datatype.hpp"
#include "server/http/infer_response.hpp"

namespace millrace::server::http {

Inference::Inference(std::shared_ptr<models::Model> model, InferRequest request, Clock::time_point arrival,
                     Clock::time_point deadline)
    : model_(std::move(model)), request_(std::move(request)), arrival_(arrival) {
  frame_.inputs = std::move(request_.inputs);
  const std::size_t outputs = model_->info().outputs.size();
  outputs_.reserve(outputs);
  frame_.outputs.reserve(outputs);
  for (const auto& signature : model_->info().outputs) outputs_.emplace_back(bytes_of(signature));
  for (auto& output : outputs_) frame_.outputs.emplace_back(output);
  frame_.deadline = deadline;
  frame_.on_complete = &Inference::completed;
  frame_.context = this;
}

Status Inference::start(void (*done)(void*), void* context) {
  done_ = done;
  done_context_ = context;
  // Counted before the frame is given away: afterwards it may be complete, and this object gone, at any
  // moment.
  model_->begun();
  const std::shared_ptr<models::Model> model = model_;
  const auto arrival = arrival_;
  try {
    const Status status = model->pipeline().submit(frame_);
    if (!status.ok()) model->failed(status.error().code(), Clock::now() - arrival);
    return status;
  } catch (...) {
    model->failed(ErrorCode::kInternal, Clock::now() - arrival);
    throw;
  }
}

void Inference::cancel() {
  model_->pipeline().cancel(frame_);
}

void Inference::completed(runtime::pipeline::Frame&, void* context) {
  auto* self = static_cast<Inference*>(context);
  self->done_(self->done_context_);
}

Response Inference::finish() {
  const auto elapsed = [&] { return std::chrono::nanoseconds(Clock::now() - arrival_); };
  if (!frame_.status.ok()) {
    model_->failed(frame_.status.error().code(), elapsed());
    return error_response(frame_.status.error());
  }
  auto response = [&] {
    try {
      return write_infer_response(model_->info(), model_->name(), model_->version(), request_, frame_.outputs,
                                  scratch_);
    } catch (...) {
      model_->failed(ErrorCode::kInternal, elapsed());
      throw;
    }
  }();
  if (!response) {
    model_->failed(response.error().code(), elapsed());
    return error_response(response.error());
  }
  const auto& times = frame_.times;
  model_->succeeded({elapsed(), times.queue, times.input, times.compute, times.output});
  return std::move(response).value();
}

}  // namespace millrace::server::http
