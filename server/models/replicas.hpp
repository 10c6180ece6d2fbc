// Several pipelines of one version as one: frames go to them in turn, past those that are full or lost.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::server::models {

/// Threads: as Pipeline; add() and retire() by one at a time.
class Replicas final : public runtime::pipeline::Pipeline {
 public:
  static constexpr std::size_t kMost = 64;

  explicit Replicas(std::shared_ptr<runtime::pipeline::Pipeline> first);

  /// kResourceExhausted beyond kMost, those retired counted too.
  Status add(std::shared_ptr<runtime::pipeline::Pipeline> pipeline);

  /// Takes the one that was added first out of turn and hands it over; null where there is none. Frames it
  /// has complete there. It lives as long as this object: threads may be inside.
  std::shared_ptr<runtime::pipeline::Pipeline> retire();

  /// Those in turn.
  std::size_t size() const;

  const runtime::plan::Deployment& deployment() const override { return first_->deployment(); }
  Status submit(runtime::pipeline::Frame& frame) override;
  void cancel(runtime::pipeline::Frame& frame) override;
  bool ready() const override;                       // one of them is
  std::chrono::milliseconds retry_after() override;  // the soonest
  runtime::pipeline::PipelineStatus status() override;
  std::vector<runtime::pipeline::FrameRecord> recent_frames() override;  // of one behind those of another
  Result<std::unique_ptr<Pipeline>> open_again() const override { return first_->open_again(); }
  void stop(std::chrono::milliseconds bound) override;

 private:
  std::vector<std::shared_ptr<runtime::pipeline::Pipeline>> owned() const;

  const std::shared_ptr<runtime::pipeline::Pipeline> first_;
  std::array<std::atomic<runtime::pipeline::Pipeline*>, kMost> in_turn_{};  // null: retired, or not there yet
  std::atomic<std::uint32_t> places_{0}, turn_{0};

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<runtime::pipeline::Pipeline>> owned_;  // by place; protected by mutex_
};

}  // namespace millrace::server::models
