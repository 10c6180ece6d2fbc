// One infer request on its way through a pipeline: the checked request, its frame, and the buffers of the outputs.
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

/// Not movable: the pipeline holds the frame's address from start() until it calls `done`. The body that the request
/// views must live until then. One thread calls all functions; a thread of the pipeline calls `done`.
///
///   request() filled ─▶ prepare() ─▶ start() ─▶ `done` ─▶ finish() ─▶ keep() ─▶ recycle(), and again
class Inference {
 public:
  using Clock = runtime::pipeline::Clock;

  Inference() = default;
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// To be filled by parse_infer_request().
  InferRequest& request() { return request_; }

  /// `any_version`: if another version replaces the model meanwhile, that one may answer. `client`: Request::client.
  /// Allocates nothing if an earlier request had as many and as large outputs.
  void prepare(std::shared_ptr<models::Model> model, bool any_version, std::uint64_t client,
               Clock::time_point arrival, Clock::time_point deadline);

  /// Gives the frame to the pipeline, which then calls `done(frame, context)` exactly once, perhaps before this
  /// returns; `done` must not block. After an error the pipeline has not taken the frame and will not call `done`.
  using Done = void (*)(runtime::pipeline::Frame&, void*);
  Status start(Done done, void* context);

  /// Takes the frame back if it still waits, because the client went away. Between start() and finish().
  void cancel();

  /// After `done` was called: returns the answer, which views this object's buffers, and counts the request in the
  /// model's metrics.
  Response finish();

  /// After the answer was written: keeps its memory for the next answer.
  void keep(Response answer) { answer_ = std::move(answer); }

  /// Releases the model and what depends on the request. Memory stays.
  void recycle();

  /// How much memory stays.
  std::size_t kept_bytes() const;

  models::Model& model() const { return *model_; }
  /// The version that has the frame: model(), or the one that replaced it.
  const models::Model& served() const { return *passage_.model; }

 private:
  std::shared_ptr<models::Model> model_;  // the request was sent to it
  models::Passage passage_;               // and this one answers
  InferRequest request_;
  Clock::time_point arrival_;
  std::vector<std::vector<std::byte>> outputs_, scratch_;
  runtime::pipeline::Frame frame_;
  Response answer_;  // an earlier one, for its memory
};

/// Inferences that wait for the next request, so that a warm server allocates none. For one thread. Outlives those
/// that it gave.
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
  // Inferences beyond these limits are freed, so that the memory of a burst is not kept for ever.
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 16U << 20U;

  void give_back(Inference* inference);

  std::vector<std::unique_ptr<Inference>> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace millrace::server::http
