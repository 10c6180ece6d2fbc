// Frames that wait for a slot: bounded, allocated once, first in first out, with removal from the middle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Not thread-safe. Frames are not looked into: the deadline is the one at push().
class FrameQueue {
 public:
  struct Entry {
    Frame* frame = nullptr;
    Clock::time_point submitted, deadline;
  };

  explicit FrameQueue(std::uint32_t capacity) : entries_(capacity) {}

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == entries_.size(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(size_); }

  /// Not when full().
  void push(const Entry& entry) { at(size_++) = entry; }

  /// Not when empty().
  Entry pop() {
    const Entry entry = at(0);
    first_ = (first_ + 1) % entries_.size();
    --size_;
    return entry;
  }

  /// Whether the frame was there.
  bool remove(const Frame* frame) {
    return remove_if([&](const Entry& entry) { return entry.frame == frame; }).frame != nullptr;
  }

  /// Removes and returns the first frame whose deadline is not after `now`; an empty entry where there is
  /// none.
  Entry pop_expired(Clock::time_point now) {
    return remove_if([&](const Entry& entry) { return entry.deadline <= now; });
  }

  Clock::time_point earliest_deadline() const {
    Clock::time_point earliest = Clock::time_point::max();
    for (std::size_t i = 0; i < size_; ++i) {
      earliest = std::min(earliest, entries_[(first_ + i) % entries_.size()].deadline);
    }
    return earliest;
  }

 private:
  Entry& at(std::size_t position) { return entries_[(first_ + position) % entries_.size()]; }

  template <class Predicate>
  Entry remove_if(Predicate predicate) {
    for (std::size_t i = 0; i < size_; ++i) {
      if (!predicate(at(i))) continue;
      const Entry removed = at(i);
      for (std::size_t j = i + 1; j < size_; ++j) at(j - 1) = at(j);
      --size_;
      return removed;
    }
    return {};
  }

  std::vector<Entry> entries_;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace millrace::runtime::pipeline
