// A model version that is being served: its pipeline, its state, its statistics.
//
// Whoever works on a request holds a shared_ptr<Model> until the answer is written, so a request begins and
// ends on one version whatever is published meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/pipeline/dispatcher.hpp"
#include "runtime/plan/quantised.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/busy.hpp"
#include "server/models/swap_gate.hpp"
#include "server/models/verification.hpp"

namespace millrace::server::models {

/// In the order of the model's inputs.
using QuantisedInputs = std::vector<std::optional<runtime::plan::QuantisedInput>>;

enum class ModelState { kUnknown, kReady, kUnavailable, kLoading, kUnloading };

/// As the repository index names them: "READY".
std::string_view to_string(ModelState state);

/// Counts and times since the model was loaded, as Triton's statistics extension defines them. Any thread.
class Statistics {
 public:
  struct Duration {
    std::uint64_t count = 0, ns = 0;
  };
  struct Snapshot {
    std::uint64_t last_inference_unix_ms = 0;
    std::uint64_t inferences = 0;
    Duration success, fail, queue, input, compute, output;
    std::uint64_t refused = 0;  // of `fail`: requests that no pipeline took
  };

  void succeeded(const metrics::RequestTimes& times);
  void failed(std::chrono::nanoseconds request);
  void refused();
  Snapshot snapshot() const;

 private:
  struct Sum {
    std::atomic<std::uint64_t> count{0}, ns{0};
    void add(std::chrono::nanoseconds time) {
      count.fetch_add(1, std::memory_order_relaxed);
      ns.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
    }
    Duration read() const {
      return {count.load(std::memory_order_relaxed), ns.load(std::memory_order_relaxed)};
    }
  };
  Sum success_, fail_, queue_, input_, compute_, output_;
  std::atomic<std::uint64_t> last_inference_unix_ms_{0}, refused_{0};
};

class Model {
 public:
  /// The Metrics that `metrics` belongs to must outlive the model. `pipeline` is its first replica; `waiting`
  /// frames may wait for a slot.
  Model(std::string name, std::string version, std::shared_ptr<runtime::pipeline::Pipeline> pipeline,
        std::shared_ptr<metrics::ModelMetrics> metrics, std::uint32_t waiting = 64);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const runtime::plan::Deployment& deployment() const { return pipeline_->deployment(); }
  const runtime::plan::ModelInfo& info() const { return pipeline_->deployment().model; }
  /// What may be sent instead of an input's own type.
  const QuantisedInputs& quantised() const { return quantised_; }
  runtime::pipeline::Dispatcher& pipeline() const { return *pipeline_; }

  /// As Pipeline::submit(). The version that takes this one's place may answer the frame; `passage` must live
  /// until on_complete.
  Status submit(runtime::pipeline::Frame& frame, Passage& passage) {
    frame.passage = &passage;
    return pipeline_->submit(frame);
  }

  ModelState state() const { return state_.load(std::memory_order_acquire); }
  void set_state(ModelState state) { state_.store(state, std::memory_order_release); }

  /// The frames that missing replicas have yet to be verified with; null if there are none. For the thread
  /// that swaps.
  const std::shared_ptr<const StoredFrames>& pending_verification() const { return pending_verification_; }
  void set_pending_verification(std::shared_ptr<const StoredFrames> stored) {
    pending_verification_ = std::move(stored);
  }

  // One of these for every request: begun(), then succeeded(), failed(), passed_on(), or not_taken() where
  // the pipeline did not accept the frame; or refused() alone, where no frame was made of it.
  void begun() { metrics_->begun(); }
  void passed_on() { metrics_->passed_on(); }
  void succeeded(metrics::Transport transport, const metrics::RequestTimes& times);
  void failed(metrics::Transport transport, ErrorCode reason, std::chrono::nanoseconds request);
  void refused(metrics::Transport transport, ErrorCode reason);
  void not_taken(metrics::Transport transport, ErrorCode reason) {
    metrics_->passed_on();
    refused(transport, reason);
  }

  const Statistics& statistics() const { return statistics_; }
  BusyRatios& busy() { return busy_; }

 private:
  const std::string name_, version_;
  const std::unique_ptr<runtime::pipeline::Dispatcher> pipeline_;
  const QuantisedInputs quantised_;
  const std::shared_ptr<metrics::ModelMetrics> metrics_;
  Statistics statistics_;
  BusyRatios busy_;
  std::atomic<ModelState> state_{ModelState::kReady};
  std::shared_ptr<const StoredFrames> pending_verification_;
};

}  // namespace millrace::server::models
