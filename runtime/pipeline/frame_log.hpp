// The timelines of the last frames, for Pipeline::recent_frames().
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// The mean time from the end of one frame to the end of the next, over the frames of the last second before
/// the last frame ended; at least the time since the last frame. Zero if there are too few records.
inline std::chrono::nanoseconds pace_of(const std::vector<FrameRecord>& records, Clock::time_point now) {
  if (records.size() < 2) return std::chrono::nanoseconds(0);
  const Clock::time_point last = records.back().done;
  std::size_t first = records.size() - 2;
  while (first > 0 && last - records[first - 1].done <= std::chrono::seconds(1)) --first;
  const auto frames = static_cast<std::int64_t>(records.size() - 1 - first);
  return std::max<std::chrono::nanoseconds>((last - records[first].done) / frames, now - last);
}

/// Any thread. note() never waits: a frame that ends while the records are read is not recorded.
class FrameLog {
 public:
  void note(const FrameRecord& record) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    records_[count_ % kKept] = record;
    ++count_;
  }

  /// Oldest first.
  std::vector<FrameRecord> read() const {
    const std::lock_guard lock(mutex_);
    std::vector<FrameRecord> out;
    out.reserve(std::min(count_, kKept));
    for (std::uint64_t i = count_ - std::min(count_, kKept); i < count_; ++i)
      out.push_back(records_[i % kKept]);
    return out;
  }

 private:
  static constexpr std::uint64_t kKept = 1024;

  mutable std::mutex mutex_;
  std::uint64_t count_ = 0;  // of all frames noted
  std::vector<FrameRecord> records_ = std::vector<FrameRecord>(kKept);
};

}  // namespace millrace::runtime::pipeline
