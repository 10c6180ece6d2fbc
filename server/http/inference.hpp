// One infer request on its way through a pipeline: the checked request, the frame, the buffers of the
// outputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "server/http/infer_request.hpp"
#include "server/http/message.hpp"
#include "server/models/model.hpp"

namespace millrace::server::http {

/// Not movable: the pipeline holds the frame's address from start() until `done`. What the request views (the
/// body) must live as long as the inference. start() and finish() are called by one thread, `done` comes from
/// a pipeline's.
class Inference {
 public:
  using Clock = runtime::pipeline::Clock;

  Inference(std::shared_ptr<models::Model> model, InferRequest request, Clock::time_point arrival,
            Clock::time_point deadline);
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// Gives the frame to the pipeline. Ok: `done(context)` will be called exactly once, perhaps before this
  /// returns; it must not block. An error, or an exception (out of memory): the frame was not taken, `done`
  /// will not be called.
  Status start(void (*done)(void*), void* context);

  /// The client went away: takes the frame back if it still waits. After start() and before finish().
  void cancel();

  /// The answer, once `done` was called; it views this inference's buffers. Counts the request in the model's
  /// metrics, also where it throws (out of memory).
  Response finish();

  const models::Model& model() const { return *model_; }

 private:
  static void completed(runtime::pipeline::Frame& frame, void* context);

  const std::shared_ptr<models::Model> model_;
  InferRequest request_;  // its inputs are the frame's
  const Clock::time_point arrival_;
  std::vector<std::vector<std::byte>> outputs_, scratch_;
  runtime::pipeline::Frame frame_;
  void (*done_)(void*) = nullptr;
  void* done_context_ = nullptr;
};

}  // namespace millrace::server::http
