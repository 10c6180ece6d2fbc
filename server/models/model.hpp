// A model version that is being served: its pipeline, its state, its statistics, and the gate through which frames
// pass to the next version.
//
// A request holds a shared_ptr<Model> until its answer is written. So a single version computes the whole request,
// even if another version is published meanwhile.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/pipeline/dispatcher.hpp"
#include "runtime/plan/quantised.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/verification.hpp"

namespace millrace::server::models {

/// For each of the model's inputs, in order, the quantised type that clients may send instead, if there is one.
using QuantisedInputs = std::vector<std::optional<runtime::plan::QuantisedInput>>;

enum class ModelState { kUnknown, kReady, kUnavailable, kLoading, kUnloading };

/// Returns the state's name in the repository index, such as "READY".
std::string_view to_string(ModelState state);

/// Counts of requests and sums of their times since the model was loaded, as Triton's statistics extension has them.
struct Statistics {
  std::uint64_t last_inference_unix_ms = 0;
  std::uint64_t successes = 0, failures = 0;
  std::uint64_t refused = 0;  // requests that no pipeline accepted; `failures` includes them
  metrics::RequestTimes succeeded;
  std::chrono::nanoseconds failed{0};
};

/// Measures the share of the last second (or longer) in which each card was busy computing. Any thread may use it.
class BusyRatios {
 public:
  using Clock = std::chrono::steady_clock;

  /// Returns the card's busy ratio; the first call for a card returns 0. `busy_seconds` is the card's counter of
  /// computing time at `now`. Loading an FPGA image resets that counter.
  double of(const std::string& card, double busy_seconds, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    auto [entry, fresh] = cards_.try_emplace(card, Window{now, busy_seconds, 0});
    Window& window = entry->second;
    const double passed = std::chrono::duration<double>(now - window.since).count();
    if (fresh || passed < 1) return window.ratio;
    const double busy = busy_seconds >= window.busy ? busy_seconds - window.busy : busy_seconds;
    window = {now, busy_seconds, std::min(1.0, busy / passed)};
    return window.ratio;
  }

 private:
  struct Window {
    Clock::time_point since;
    double busy = 0, ratio = 0;
  };

  std::mutex mutex_;
  std::map<std::string, Window> cards_;
};

class Model;

/// Says whether another version may answer a frame, and records which version did. Frame::passage points to this
/// object.
struct Passage {
  /// The version that the frame was submitted to. If another version takes over the frame, SwapGate stores that other
  /// version here before on_complete is called.
  std::shared_ptr<Model> model;
  bool any_version = false;  // a version with a different number may answer
};

/// After a swap, passes frames from the old version to the next: frames held during the swap, and later ones. A
/// frame whose `passage` is null passes only if both versions have the same deployment.
class SwapGate final : public runtime::pipeline::Successor {
 public:
  SwapGate(const Model& before, std::shared_ptr<Model> next);

  Status submit(runtime::pipeline::Frame& frame) override;
  void cancel(runtime::pipeline::Frame& frame) override;

 private:
  const bool same_deployment_;
  const std::shared_ptr<Model> next_;
};

class Model {
 public:
  /// `pipeline` is the model's first replica. Up to `waiting` frames may wait for a free frame slot of a replica. The
  /// Metrics object that `metrics` belongs to must outlive the model.
  Model(std::string name, std::string version, std::shared_ptr<runtime::pipeline::Pipeline> pipeline,
        std::shared_ptr<metrics::ModelMetrics> metrics, std::uint32_t waiting = 64);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const runtime::plan::Deployment& deployment() const { return pipeline_->deployment(); }
  const runtime::plan::ModelInfo& info() const { return pipeline_->deployment().model; }
  /// The quantised types that clients may send instead of an input's own type.
  const QuantisedInputs& quantised() const { return quantised_; }
  runtime::pipeline::Dispatcher& pipeline() const { return *pipeline_; }

  /// Submits a frame like Pipeline::submit(). If a new version replaces this model, the new version may answer the
  /// frame. `passage`, which then names that version, must live until on_complete is called.
  Status submit(runtime::pipeline::Frame& frame, Passage& passage) {
    frame.passage = &passage;
    return pipeline_->submit(frame);
  }

  ModelState state() const { return state_.load(std::memory_order_acquire); }
  void set_state(ModelState state) { state_.store(state, std::memory_order_release); }

  /// The stored frames with which the missing replicas must still be verified, or null if there are none. Only the
  /// thread that swaps versions may read or set them.
  const std::shared_ptr<const StoredFrames>& pending_verification() const { return pending_verification_; }
  void set_pending_verification(std::shared_ptr<const StoredFrames> stored) {
    pending_verification_ = std::move(stored);
  }

  // Every request that became a frame calls begun() and then exactly one of succeeded(), failed() and passed_on(), or
  // not_taken() if the pipeline refused the frame. A request that never became a frame calls only refused().
  void begun() { metrics_->begun(); }
  void passed_on() { metrics_->passed_on(); }
  void succeeded(metrics::Transport transport, const metrics::RequestTimes& times);
  void failed(metrics::Transport transport, ErrorCode reason, std::chrono::nanoseconds request);
  void refused(metrics::Transport transport, ErrorCode reason);
  void not_taken(metrics::Transport transport, ErrorCode reason) {
    metrics_->passed_on();
    refused(transport, reason);
  }

  Statistics statistics() const {
    const std::lock_guard lock(statistics_mutex_);
    return statistics_;
  }
  BusyRatios& busy() { return busy_; }

 private:
  const std::string name_, version_;
  const std::unique_ptr<runtime::pipeline::Dispatcher> pipeline_;
  const QuantisedInputs quantised_;
  const std::shared_ptr<metrics::ModelMetrics> metrics_;
  mutable std::mutex statistics_mutex_;
  Statistics statistics_;  // protected by statistics_mutex_
  BusyRatios busy_;
  std::atomic<ModelState> state_{ModelState::kReady};
  std::shared_ptr<const StoredFrames> pending_verification_;
};

}  // namespace millrace::server::models
