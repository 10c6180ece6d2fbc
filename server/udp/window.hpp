// The at-most-once window of one session: the state of its newest request ids.
#pragma once

#include <cstdint>
#include <vector>

#include "server/udp/request.hpp"

namespace millrace::server::udp {

class Window {
 public:
  struct Slot {
    enum class Content : std::uint8_t {
      kNothing,  // never seen, or refused with BUSY
      kHeld,     // `request` is being received, computed or kept
      kFailed,   // answered with ERR `error`
      kGone,     // answered, the response is no longer kept
    };
    std::uint64_t id = 0;
    Request* request = nullptr;
    std::uint16_t error = 0;
    Content content = Content::kNothing;
  };

  /// Ids at or below `floor` are stale from the start.
  Window(std::uint32_t size, std::uint64_t floor) : slots_(size), floor_(floor), newest_(floor) {}

  bool stale(std::uint64_t id) const {
    return id <= floor_ || (newest_ >= slots_.size() && id <= newest_ - slots_.size());
  }

  /// The slot of an id that is not stale. If slot.id differs, the slot holds the state of an id at least
  /// `size` older, which must be released before the new id is taken.
  Slot& slot(std::uint64_t id) { return slots_[id % slots_.size()]; }

  /// Gives the released slot to a request that is being received.
  void take(Slot& slot, std::uint64_t id, Request* request) {
    slot = Slot{id, request, 0, Slot::Content::kHeld};
    if (id > newest_) newest_ = id;
  }

  std::vector<Slot>& slots() { return slots_; }

 private:
  std::vector<Slot> slots_;
  const std::uint64_t floor_;
  std::uint64_t newest_;
};

struct SessionKey {
  Address address;
  std::uint64_t client_id = 0;
  std::uint8_t key_id = 0;
  bool operator==(const SessionKey&) const = default;
};

struct SessionKeyHash {
  std::size_t operator()(const SessionKey& key) const {
    return AddressHash()(key.address) ^ static_cast<std::size_t>(key.client_id * 0x9E3779B97F4A7C15U);
  }
};

struct Session {
  Session(const SessionKey& k, std::uint32_t window_size, std::uint64_t floor, std::uint16_t fragment)
      : key(k), window(window_size, floor), fragment_bytes(fragment) {}

  const SessionKey key;
  Window window;
  std::uint16_t fragment_bytes;
  Clock::time_point last_seen;
  std::uint32_t receiving = 0;
  std::uint32_t in_flight = 0;  // not collected yet; a session with any is not closed
};

}  // namespace millrace::server::udp
