// A bounded queue of waiting frames, allocated once. The most urgent frame comes first. Equally urgent frames
// are taken from each client in turn, so that a client with many frames waits longest. The frames of one
// client stay in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <list>

#include "runtime/pipeline/pipeline.hpp"

namespace millrace::runtime::pipeline {

/// Not thread-safe. Reads only the entry passed to push(), never the frame. pop() takes constant time. push() and
/// make_room() visit the clients of one priority; remove() and pop_expired() visit the whole queue.
class FrameQueue {
 public:
  struct Entry {
    Frame* frame = nullptr;
    Clock::time_point submitted, deadline;
    std::uint8_t priority = kUsualPriority;
    std::uint64_t client = 0;
  };

  explicit FrameQueue(std::uint32_t capacity)
      : capacity_(capacity), free_entries_(capacity), free_clients_(capacity) {}

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ >= capacity_; }
  std::uint32_t size() const { return size_; }

  /// Adds an entry. Allocates memory only if the queue is full(); the queue then grows beyond its capacity.
  void push(const Entry& entry) {
    if (free_entries_.empty()) free_entries_.emplace_back();
    if (free_clients_.empty()) free_clients_.emplace_back();
    Clients& clients = waiting_[level_of(entry.priority)];
    auto client = find(clients, entry.client);
    if (client == clients.end()) {
      client = free_clients_.begin();
      clients.splice(clients.end(), free_clients_, client);
      client->number = entry.client;
    }
    client->entries.splice(client->entries.end(), free_entries_, free_entries_.begin());
    client->entries.back() = entry;
    ++size_;
  }

  /// Returns the entry that pop() would return. The queue must not be empty().
  const Entry& front() const {
    return std::find_if(waiting_.begin(), waiting_.end(), has_frames)->front().entries.front();
  }

  /// Removes and returns the first entry. The queue must not be empty().
  Entry pop() {
    Clients& clients = *std::find_if(waiting_.begin(), waiting_.end(), has_frames);
    const auto first = clients.begin();
    clients.splice(clients.end(), clients, first);  // the next client now comes first
    return take(clients, first, first->entries.begin());
  }

  /// Called if the queue is full(): removes and returns the frame that `arrival` displaces. The displaced frame is the
  /// last of a less urgent client, or of an equally urgent client with more waiting frames than the arrival's client.
  /// An empty entry means that the arrival must be refused.
  Entry make_room(const Entry& arrival) {
    const auto least = std::find_if(waiting_.rbegin(), waiting_.rend(), has_frames);
    if (least == waiting_.rend()) return {};
    Clients& clients = *least;
    const std::size_t level = waiting_.size() - 1 - static_cast<std::size_t>(least - waiting_.rbegin());
    if (level < level_of(arrival.priority)) return {};
    const auto longest = std::max_element(
        clients.begin(), clients.end(),
        [](const Client& a, const Client& b) { return a.entries.size() < b.entries.size(); });
    if (level == level_of(arrival.priority)) {
      const auto own = find(clients, arrival.client);
      if (longest->entries.size() < (own == clients.end() ? 0 : own->entries.size()) + 2) return {};
    }
    return take(clients, longest, std::prev(longest->entries.end()));
  }

  /// Removes a frame. Returns whether the frame was in the queue.
  bool remove(const Frame* frame) {
    return remove_if([&](const Entry& entry) { return entry.frame == frame; }).frame != nullptr;
  }

  /// Removes and returns a frame whose deadline is not after `now`. Returns an empty entry if there is none.
  Entry pop_expired(Clock::time_point now) {
    return remove_if([&](const Entry& entry) { return entry.deadline <= now; });
  }

  Clock::time_point earliest_deadline() const {
    Clock::time_point earliest = Clock::time_point::max();
    for (const Clients& clients : waiting_)
      for (const Client& client : clients)
        for (const Entry& entry : client.entries) earliest = std::min(earliest, entry.deadline);
    return earliest;
  }

 private:
  struct Client {
    std::uint64_t number = 0;
    std::list<Entry> entries;  // never empty while the client is in the queue
  };
  using Clients = std::list<Client>;  // the client whose turn it is, is first

  static bool has_frames(const Clients& clients) { return !clients.empty(); }

  static std::size_t level_of(std::uint8_t priority) {
    return std::clamp(priority, kFirstPriority, kLastPriority) - std::size_t{kFirstPriority};
  }

  static Clients::iterator find(Clients& clients, std::uint64_t number) {
    return std::find_if(clients.begin(), clients.end(), [&](const Client& c) { return c.number == number; });
  }

  Entry take(Clients& clients, Clients::iterator client, std::list<Entry>::iterator at) {
    const Entry taken = *at;
    free_entries_.splice(free_entries_.begin(), client->entries, at);
    if (client->entries.empty()) free_clients_.splice(free_clients_.begin(), clients, client);
    --size_;
    return taken;
  }

  template <class Predicate>
  Entry remove_if(Predicate predicate) {
    for (Clients& clients : waiting_)
      for (auto client = clients.begin(); client != clients.end(); ++client)
        if (const auto at = std::find_if(client->entries.begin(), client->entries.end(), predicate);
            at != client->entries.end())
          return take(clients, client, at);
    return {};
  }

  std::uint32_t capacity_, size_ = 0;
  std::array<Clients, kLastPriority - kFirstPriority + 1> waiting_;  // indexed by priority - kFirstPriority
  std::list<Entry> free_entries_;
  Clients free_clients_;
};

}  // namespace millrace::runtime::pipeline
