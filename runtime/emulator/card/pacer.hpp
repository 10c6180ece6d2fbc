// Makes a partition take the predicted time of its hardware: it takes a frame no sooner than one interval after it took
// the previous frame, and a frame leaves no sooner than a delay after it was taken. In between, the computed outputs
// of the frame are kept here. Times are of the steady clock, in nanoseconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/emulator/card/frame_key.hpp"
#include "runtime/plan/pace.hpp"

namespace millrace::runtime::emulator {

class Pacer {
 public:
  struct Frame {
    FrameKey key;
    std::uint64_t due = 0;   // when the frame may leave
    std::uint64_t took = 0;  // nanoseconds that the computation took
    bool dropped = false;
    std::vector<std::vector<std::byte>> outputs;  // in storage form
  };

  /// `times` are the predicted times of the hardware. The emulated partition is `factor` times slower. With a factor of
  /// 0 or without predicted times, the partition has no pace. `output_bytes` are the sizes of the outputs.
  Pacer(const plan::Pace& times, double factor, const std::vector<std::size_t>& output_bytes) {
    if (factor == 0 || times.interval_nanoseconds == 0) return;
    interval_ = scaled(times.interval_nanoseconds, factor);
    delay_ = scaled(times.delay_nanoseconds, factor);
    // Make room for the frames that the hardware's pipeline holds at once, and for one in the buffer of the
    // output.
    frames_.resize(std::min<std::uint64_t>((delay_ + interval_ - 1) / interval_, kMostFrames) + 1);
    for (auto& frame : frames_)
      for (const std::size_t bytes : output_bytes) frame.outputs.emplace_back(bytes);
  }

  bool has_pace() const { return interval_ > 0; }
  std::uint64_t interval() const { return interval_; }
  bool is_full() const { return count_ == frames_.size(); }

  /// Returns the time from which the partition may take a frame whose inputs were complete at `arrived`.
  std::uint64_t begin_of(std::uint64_t arrived) const { return std::max(arrived, next_begin_); }

  /// Adds a frame that the partition takes at `begin`. The caller computes the frame's outputs. Must not be full.
  Frame& take(const FrameKey& key, std::uint64_t begin) {
    Frame& frame = frames_[(first_ + count_++) % frames_.size()];
    frame.key = key;
    frame.due = begin + delay_;
    frame.dropped = false;
    next_begin_ = begin + interval_;
    return frame;
  }

  /// Returns the oldest frame, or null if there is none. Removes dropped frames first.
  const Frame* oldest() {
    while (count_ > 0 && frames_[first_].dropped) remove_oldest(0);
    return count_ > 0 ? &frames_[first_] : nullptr;
  }
  /// Removes the oldest frame, which leaves the partition at time `at`. If the pacer was full, the partition takes its
  /// next frame at `at` or later.
  void remove_oldest(std::uint64_t at) {
    if (is_full()) next_begin_ = std::max(next_begin_, at);
    first_ = (first_ + 1) % frames_.size();
    --count_;
  }

  /// Drops the frames for which stays(key) is false.
  template <class Stays>
  void drop(const Stays& stays) {
    for (std::size_t i = 0; i < count_; ++i) {
      Frame& frame = frames_[(first_ + i) % frames_.size()];
      frame.dropped = frame.dropped || !stays(frame.key);
    }
  }

 private:
  static constexpr std::uint64_t kMostFrames = 256;
  static constexpr double kMostNanoseconds = 1e15;  // the times come from an image, so they may be anything

  static std::uint64_t scaled(std::uint64_t nanoseconds, double factor) {
    return static_cast<std::uint64_t>(
        std::min(std::round(static_cast<double>(nanoseconds) * factor), kMostNanoseconds));
  }

  std::uint64_t interval_ = 0, delay_ = 0, next_begin_ = 0;
  std::vector<Frame> frames_;  // a ring: `count_` frames from `first_` on
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace millrace::runtime::emulator
