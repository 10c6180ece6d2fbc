// A bounded queue of waiting frames, allocated once. The most urgent frame comes first. Equally urgent frames
// are taken from each client in turn, so that a client with many frames waits longest. The frames of one
// client stay in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Not thread-safe. Reads no field of a frame, only the entry given to push(). push(), pop() and make_room()
/// take constant time; remove(), pop_expired() and earliest_deadline() visit the whole queue.
class FrameQueue {
 public:
  struct Entry {
    Frame* frame = nullptr;
    Clock::time_point submitted, deadline;
    std::uint8_t priority = kUsualPriority;
    std::uint64_t client = 0;
  };

  explicit FrameQueue(std::uint32_t capacity) : nodes_(capacity), flows_(capacity) {
    std::size_t buckets = 1;
    while (buckets < capacity) buckets *= 2;
    buckets_.assign(buckets, kNone);
    for (std::uint32_t i = capacity; i-- > 0;) {
      nodes_[i].next = free_node_;
      free_node_ = i;
      flows_[i].next = free_flow_;
      free_flow_ = i;
    }
    turn_.fill(kNone);
  }

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == nodes_.size(); }
  std::uint32_t size() const { return size_; }

  /// Must not be full().
  void push(const Entry& entry) {
    const std::uint32_t flow = flow_for(entry);
    const std::uint32_t node = free_node_;
    free_node_ = nodes_[node].next;
    Flow& of = flows_[flow];
    nodes_[node] = {entry, of.last, kNone};
    (of.last == kNone ? of.first : nodes_[of.last].next) = node;
    of.last = node;
    ++of.size;
    ++size_;
  }

  /// The entry that pop() would return. Must not be empty().
  const Entry& front() const {
    std::size_t level = 0;
    while (turn_[level] == kNone) ++level;
    return nodes_[flows_[turn_[level]].first].entry;
  }

  /// Must not be empty().
  Entry pop() {
    std::size_t level = 0;
    while (turn_[level] == kNone) ++level;
    const std::uint32_t flow = turn_[level];
    turn_[level] = flows_[flow].next;  // the next client's turn
    return take(flow, flows_[flow].first);
  }

  /// For a full() queue: removes and returns the frame that `arrival` displaces. That is the last frame of a
  /// less urgent client, or of an equally urgent client that has more frames here than the arrival's client.
  /// An empty entry means that the arrival must be refused.
  Entry make_room(const Entry& arrival) {
    std::size_t level = turn_.size();
    while (level > 0 && turn_[level - 1] == kNone) --level;
    if (level == 0 || level < arrival.priority) return {};
    const std::uint32_t longest = longest_of(turn_[level - 1]);
    if (level == arrival.priority) {
      const std::uint32_t own = find(arrival);
      if (flows_[longest].size < (own == kNone ? 0 : flows_[own].size) + 2) return {};
    }
    return take(longest, flows_[longest].last);
  }

  /// Whether the frame was in the queue.
  bool remove(const Frame* frame) {
    return remove_if([&](const Entry& entry) { return entry.frame == frame; }).frame != nullptr;
  }

  /// Removes and returns a frame whose deadline is not after `now`; an empty entry if there is none.
  Entry pop_expired(Clock::time_point now) {
    return remove_if([&](const Entry& entry) { return entry.deadline <= now; });
  }

  Clock::time_point earliest_deadline() const {
    Clock::time_point earliest = Clock::time_point::max();
    for_each([&](std::uint32_t, std::uint32_t node) {
      earliest = std::min(earliest, nodes_[node].entry.deadline);
      return true;
    });
    return earliest;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr int kMostCompared = 64;  // clients compared to find one with many frames

  struct Node {
    Entry entry;
    std::uint32_t previous = kNone, next = kNone;  // of the same flow; next: of the free ones
  };

  /// The frames of one client at one priority.
  struct Flow {
    std::uint64_t client = 0;
    std::uint8_t priority = 0;
    std::uint32_t first = kNone, last = kNone, size = 0;
    std::uint32_t previous = kNone, next = kNone;  // in the ring of its priority; next: of the free ones
    std::uint32_t chain = kNone;                   // in its bucket
  };

  std::uint32_t& bucket_of(std::uint64_t client, std::uint8_t priority) {
    const std::uint64_t mixed = (client ^ (std::uint64_t{priority} << 56U)) * 0x9E3779B97F4A7C15U;
    return buckets_[(mixed >> 32U) & (buckets_.size() - 1)];
  }

  std::uint32_t find(const Entry& entry) {
    std::uint32_t flow = bucket_of(entry.client, entry.priority);
    while (flow != kNone && (flows_[flow].client != entry.client || flows_[flow].priority != entry.priority))
      flow = flows_[flow].chain;
    return flow;
  }

  /// A new client's turn comes after all others.
  std::uint32_t flow_for(const Entry& entry) {
    if (const std::uint32_t found = find(entry); found != kNone) return found;
    const std::uint32_t flow = free_flow_;
    free_flow_ = flows_[flow].next;
    std::uint32_t& bucket = bucket_of(entry.client, entry.priority);
    flows_[flow] = {entry.client, entry.priority, kNone, kNone, 0, flow, flow, bucket};
    bucket = flow;
    std::uint32_t& turn = turn_[level_of(entry.priority)];
    if (turn == kNone) {
      turn = flow;
      return flow;
    }
    const std::uint32_t behind = flows_[turn].previous;
    flows_[flow].previous = behind;
    flows_[flow].next = turn;
    flows_[behind].next = flow;
    flows_[turn].previous = flow;
    return flow;
  }

  static std::size_t level_of(std::uint8_t priority) {
    return std::clamp(priority, kFirstPriority, kLastPriority) - std::size_t{kFirstPriority};
  }

  std::uint32_t longest_of(std::uint32_t from) const {
    std::uint32_t longest = from, flow = flows_[from].next;
    for (int compared = 0; flow != from && compared < kMostCompared; ++compared, flow = flows_[flow].next)
      if (flows_[flow].size > flows_[longest].size) longest = flow;
    return longest;
  }

  Entry take(std::uint32_t flow, std::uint32_t node) {
    Flow& of = flows_[flow];
    const Node taken = nodes_[node];
    (taken.previous == kNone ? of.first : nodes_[taken.previous].next) = taken.next;
    (taken.next == kNone ? of.last : nodes_[taken.next].previous) = taken.previous;
    nodes_[node] = {{}, kNone, free_node_};
    free_node_ = node;
    --size_;
    if (--of.size == 0) forget(flow);
    return taken.entry;
  }

  void forget(std::uint32_t flow) {
    Flow& gone = flows_[flow];
    std::uint32_t* link = &bucket_of(gone.client, gone.priority);
    while (*link != flow) link = &flows_[*link].chain;
    *link = gone.chain;
    std::uint32_t& turn = turn_[level_of(gone.priority)];
    flows_[gone.previous].next = gone.next;
    flows_[gone.next].previous = gone.previous;
    if (turn == flow) turn = gone.next == flow ? kNone : gone.next;
    gone = {};
    gone.next = free_flow_;
    free_flow_ = flow;
  }

  /// Calls `visit(flow, node)` for every frame, in the order of urgency, until that returns false.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const std::uint32_t turn : turn_) {
      std::uint32_t flow = turn;
      while (flow != kNone) {
        for (std::uint32_t node = flows_[flow].first; node != kNone; node = nodes_[node].next)
          if (!visit(flow, node)) return;
        flow = flows_[flow].next == turn ? kNone : flows_[flow].next;
      }
    }
  }

  template <class Predicate>
  Entry remove_if(Predicate predicate) {
    std::uint32_t in = kNone, found = kNone;
    for_each([&](std::uint32_t flow, std::uint32_t node) {
      if (!predicate(nodes_[node].entry)) return true;
      in = flow;
      found = node;
      return false;
    });
    return found == kNone ? Entry{} : take(in, found);
  }

  std::vector<Node> nodes_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> buckets_;                                  // a power of two
  std::array<std::uint32_t, kLastPriority - kFirstPriority + 1> turn_;  // whose turn is next, by priority
  std::uint32_t free_node_ = kNone, free_flow_ = kNone;
  std::uint32_t size_ = 0;
};

}  // namespace millrace::runtime::pipeline
