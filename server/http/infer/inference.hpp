// One infer request on its way through a pipeline: the checked request, the frame, the buffers of the
// outputs.
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

/// Not movable: the pipeline holds the frame's address from start() until `done`. What the request views (the
/// body) must live as long as the inference works on it. All is called by one thread, `done` comes from a
/// pipeline's.
///
///   request() filled ─▶ prepare() ─▶ start() ─▶ `done` ─▶ finish() ─▶ keep() ─▶ let_go(), and again
class Inference {
 public:
  using Clock = runtime::pipeline::Clock;

  Inference() = default;
  Inference(const Inference&) = delete;
  Inference& operator=(const Inference&) = delete;

  /// To be filled by parse_infer_request().
  InferRequest& request() { return request_; }

  /// `any_version`: where another version of the model takes its place meanwhile, that one may answer.
  /// `client`: whose frame it is, among those that wait.
  /// Allocates nothing where an earlier request had as many and as large outputs.
  void prepare(std::shared_ptr<models::Model> model, bool any_version, std::uint64_t client,
               Clock::time_point arrival, Clock::time_point deadline);

  /// Gives the frame to the pipeline. Ok: `done(context)` will be called exactly once, perhaps before this
  /// returns; it must not block. An error: the frame was not taken, `done` will not be called.
  Status start(void (*done)(void*), void* context);

  /// The client went away: takes the frame back if it still waits. After start() and before finish().
  void cancel();

  /// The answer, once `done` was called; it views this inference's buffers. Counts the request in the model's
  /// metrics.
  Response finish();

  /// The answer is written: its memory is for the next request's.
  void keep(Response answer) { answer_ = std::move(answer); }

  /// Lets the model go, and what depends on the request; memory stays.
  void let_go();

  /// Memory it keeps.
  std::size_t kept_bytes() const;

  models::Model& model() const { return *model_; }
  /// The version that has the frame: model(), or the one that took its place.
  const models::Model& served() const { return *passage_.model; }

 private:
  static void completed(runtime::pipeline::Frame& frame, void* context);

  std::shared_ptr<models::Model> model_;  // it was sent to
  models::Passage passage_;               // and who answers it
  InferRequest request_;
  Clock::time_point arrival_;
  std::vector<std::vector<std::byte>> outputs_, scratch_;
  runtime::pipeline::Frame frame_;
  Response answer_;  // its memory
  void (*done_)(void*) = nullptr;
  void* done_context_ = nullptr;
};

/// Inferences that wait for the next request, so that a warm server allocates none. Of one thread; outlives
/// what it gave.
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
  // What is beyond these is freed: a burst's memory is not kept for ever.
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostBytes = 16U << 20U;

  void give_back(Inference* inference);

  std::vector<std::unique_ptr<Inference>> free_;
  std::size_t free_bytes_ = 0;
};

}  // namespace millrace::server::http
