// Runs an infer request on a pipeline. Owns the checked request, its frame and the buffers of the outputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/http/infer/infer_request.hpp"
#include "server/http/message.hpp"
#include "server/models/model.hpp"

namespace millrace::server::http {

/// An infer request and its frame. It cannot be moved, because the pipeline keeps the frame's address from start()
/// until it calls `done`. The request's body must exist until then. One thread calls the functions in the order below,
/// and starts again after recycle(). A thread of the pipeline calls `done`.
///
///   request() filled ─▶ prepare() ─▶ start() ─▶ `done` ─▶ finish() ─▶ keep() ─▶ recycle()
class Inference {
 public:
  using Clock = runtime::pipeline::Clock;

  Inference() = default;
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// Returns the request, which parse_infer_request() fills.
  InferRequest& request() { return request_; }

  /// Prepares the frame. If `any_version` is true, a version that replaces `model` before start() may answer. `client`
  /// is Request::client. Allocates nothing if an earlier request had as many outputs of at least the same sizes.
  void prepare(std::shared_ptr<models::Model> model, bool any_version, std::uint64_t client,
               Clock::time_point arrival, Clock::time_point deadline);

  /// Submits the frame to the pipeline, which then calls `done(frame, context)` exactly once, perhaps before start()
  /// returns; `done` must not block. If start() returns an error, the pipeline does not call `done`.
  using Done = void (*)(runtime::pipeline::Frame&, void*);
  Status start(Done done, void* context);

  /// Cancels the frame if it still waits in the queue. Called between start() and finish() if the client disconnects.
  void cancel();

  /// Returns the answer, which has views into this object's buffers, and counts the request in the model's metrics.
  /// Must be called after `done` was called.
  Response finish();

  /// Takes an answer that was sent, so that the next answer reuses its memory.
  void keep(Response answer) { answer_ = std::move(answer); }

  /// Releases the model and all data of the request, but keeps the buffers.
  void recycle();

  /// Returns the size of the buffers that recycle() keeps.
  std::size_t kept_bytes() const;

  models::Model& model() const { return *model_; }
  /// Returns the version that computes the frame: model(), or the version that replaced it.
  const models::Model& served() const { return *passage_.model; }

 private:
  std::shared_ptr<models::Model> model_;  // the version to which the request was addressed
  models::Passage passage_;               // names the version that answers
  InferRequest request_;
  Clock::time_point arrival_;
  std::vector<std::vector<std::byte>> outputs_, scratch_;
  runtime::pipeline::Frame frame_;
  Response answer_;  // an earlier answer, whose memory the next answer reuses
};

/// A pool of unused Inference objects, so that a warm server allocates none. Each I/O thread has its own pool, which
/// must outlive the objects that it lends.
class InferencePool {
 public:
  struct GiveBack {
    InferencePool* pool = nullptr;
    void operator()(Inference* inference) const { pool->give_back(inference); }
  };
  using Lease = std::unique_ptr<Inference, GiveBack>;

  InferencePool() { free_.reserve(kMost); }
  InferencePool(const InferencePool&) = delete;
  InferencePool& operator=(const InferencePool&) = delete;

  Lease take();

 private:
  // Objects beyond these limits are freed, so that the memory of a burst of requests is not kept for ever.
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 16U << 20U;

  void give_back(Inference* inference);

  std::vector<std::unique_ptr<Inference>> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace millrace::server::http
