// Opens pipelines with fake cards, and has frames and plans for them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/pipeline/dispatcher.hpp"
#include "runtime/pipeline/engine.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/pipeline/fake_cards.hpp"

namespace millrace::tests {

/// How long a test waits for an event that must happen. The time is generous so that tests pass on a busy machine.
inline constexpr std::chrono::seconds kPatience{60};

/// A frame with its buffers. It counts how often it is completed.
class TestFrame {
 public:
  TestFrame(std::size_t inputs, std::size_t outputs, std::int16_t value) {
    for (std::size_t i = 0; i < inputs; ++i) {
      in_.emplace_back(PlanBuilder::kElements);
      for (std::size_t e = 0; e < PlanBuilder::kElements; ++e)
        in_[i][e] = static_cast<std::int16_t>(value + static_cast<int>(e));
    }
    out_.assign(outputs, std::vector<std::int16_t>(PlanBuilder::kElements, -1));
    for (auto& tensor : in_) frame.inputs.push_back(std::as_bytes(std::span(tensor)));
    for (auto& tensor : out_) frame.outputs.push_back(std::as_writable_bytes(std::span(tensor)));
    frame.context = this;
    frame.on_complete = [](runtime::pipeline::Frame&, void* context) {
      auto& self = *static_cast<TestFrame*>(context);
      const std::lock_guard lock(self.mutex_);
      ++self.completions_;
      self.done_.notify_all();
    };
  }

  /// Waits for the frame's completion; returns false after kPatience.
  bool wait() {
    std::unique_lock lock(mutex_);
    return done_.wait_for(lock, kPatience, [&] { return completions_ > 0; });
  }
  int completions() {
    const std::lock_guard lock(mutex_);
    return completions_;
  }
  bool ok() { return wait() && frame.status.ok(); }
  ErrorCode code() {
    return wait() && !frame.status.ok() ? frame.status.error().code() : ErrorCode::kInternal;
  }

  /// Whether output `index` is `times` times the input plus `plus`.
  bool holds(std::size_t index, int times, int plus) const {
    for (std::size_t e = 0; e < PlanBuilder::kElements; ++e) {
      if (out_[index][e] != in_[0][e] * times + plus) return false;
    }
    return true;
  }

  runtime::pipeline::Frame frame;

 private:
  std::vector<std::vector<std::int16_t>> in_, out_;
  std::mutex mutex_;
  std::condition_variable done_;
  int completions_ = 0;
};

inline Result<std::unique_ptr<runtime::pipeline::Pipeline>> open_replica_on(
    FakeWorld& world, runtime::pipeline::PipelineOptions options = {}) {
  return runtime::pipeline::Pipeline::open(world.deployment(), world.cluster(), options, 1, world.source());
}

/// Opens a dispatcher with one replica.
inline Result<std::unique_ptr<runtime::pipeline::Pipeline>> open_on(
    FakeWorld& world, runtime::pipeline::PipelineOptions options = {}) {
  MILLRACE_ASSIGN(auto replica, open_replica_on(world, options));
  return std::unique_ptr<runtime::pipeline::Pipeline>(
      std::make_unique<runtime::pipeline::Dispatcher>(std::move(replica), options.queue_capacity));
}

/// Submits a frame with a short deadline. If this thread was delayed so long that the deadline had passed at
/// submission, tries again with twice the time.
template <class Submit>
Status submit_in_time(runtime::pipeline::Frame& frame, std::chrono::milliseconds within, Submit submit) {
  for (;; within *= 2) {
    frame.deadline = runtime::pipeline::Clock::now() + within;
    Status taken = submit(frame);
    if (taken.ok() || taken.error().code() != ErrorCode::kDeadlineExceeded || within > kPatience)
      return taken;
  }
}

/// Waits until `holds` returns true; returns false after kPatience.
template <class Condition>
bool eventually(Condition holds) {
  return wait_until(holds, kPatience);
}

/// Returns a plan with three cards a, b and c: x -> host +1 -> a +2 =link=> b +4 =link=> c +8 -> host +16 -> y.
inline Plan chain_of_three() {
  PlanBuilder builder;
  builder.input("x")
      .host("before", {"x"}, 1)
      .card("a", {"before"}, 2)
      .card("b", {"a"}, 4)
      .card("c", {"b"}, 8);
  builder.host("after", {"c"}, 16).output("y", "after");
  return builder.build();
}
inline constexpr int kChainSum = 31;

/// Returns a plan with two branches that join on the host and on a card. The last partition reads the input x again:
///   a = x + 1 (card)   b = a + 2 (card, link)   h = a + 4 (host)   j = b + h (host) + 8
///   c = j + b (card; one input from the host, one on the link) + 16   y = c + x (host) + 32,  z = b
inline Plan diamond() {
  PlanBuilder builder;
  builder.input("x").card("a", {"x"}, 1).card("b", {"a"}, 2).host("h", {"a"}, 4).host("j", {"b", "h"}, 8);
  builder.card("c", {"j", "b"}, 16).host("end", {"c", "x"}, 32).output("y", "end").output("z", "b");
  return builder.build();
}
// The output of diamond() as a function of the input: b = x + 3, h = x + 5, j = 2x + 16, c = 3x + 35, y = 4x + 67.
inline constexpr int kDiamondTimes = 4, kDiamondSum = 67;

}  // namespace millrace::tests
