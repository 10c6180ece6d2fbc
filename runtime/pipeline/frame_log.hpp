// The last frames' timelines, kept for whoever asks (Pipeline::recent_frames).
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Any thread. note() waits for nobody: while the records are read a frame goes unrecorded.
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
  std::uint64_t count_ = 0;  // ever noted
  std::vector<FrameRecord> records_ = std::vector<FrameRecord>(kKept);
};

}  // namespace millrace::runtime::pipeline
