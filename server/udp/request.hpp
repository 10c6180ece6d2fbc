// A Request exists from a request's first fragment until its answer is discarded. A Session belongs to one client and
// has a window of its newest request ids, so that each request is computed at most once.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"
#include "server/udp/models.hpp"
#include "server/udp/sender.hpp"
#include "server/udp/wire/assembly.hpp"
#include "server/udp/wire/keys.hpp"

namespace millrace::server::udp {

using runtime::pipeline::Clock;
class Engine;
struct Session;

/// The client to answer, and the key that signs answers to it.
struct Peer {
  Address address;
  std::uint64_t client_id = 0;
  std::uint8_t key_id = 0;
  const wire::KeyRing* keys = nullptr;  // contains key_id unless key_id is 0
};

/// Links a request into one of the lists of free, half-received, and answered requests. While a pipeline computes the
/// request, it is in no list.
using RequestHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

struct Request : RequestHook {
  enum class State : std::uint8_t { kFree, kReceiving, kInFlight, kCompleted };

  // The listener's thread writes the fields below. While `state` is kInFlight, a pipeline thread instead writes the
  // answer (error, time_us, output) and returns the request through Engine::done_.
  State state = State::kFree;
  Engine* engine = nullptr;
  Session* session = nullptr;
  Peer peer;
  std::shared_ptr<const wire::KeyRing> keys;  // keeps peer.keys alive
  std::uint64_t id = 0;
  std::uint16_t fragment_bytes = 0;  // payload size of the response's fragments
  std::shared_ptr<ServedModel> model;
  models::Passage passage;
  std::uint32_t handle = 0;
  std::vector<std::byte> input, output;  // at least as large as the model needs; never shrink
  wire::Assembly assembly;
  runtime::pipeline::Frame frame;
  std::optional<wire::ErrCode> error;  // sent instead of a response; kNoError: BUSY was sent
  std::uint32_t output_bytes = 0;
  std::uint32_t time_us = 0;

  Clock::time_point whole;     // when the last fragment arrived
  Clock::time_point next_ask;  // when the next NACK is due
  Clock::time_point expires;   // when an incomplete request is dropped
  std::chrono::nanoseconds ask_interval{0};
  unsigned asks = 0;  // NACKs sent since the last new fragment

  Request* next_done = nullptr;  // next in Engine::done_, the stack of completed requests

  std::size_t buffer_bytes() const { return input.size() + output.size(); }
  std::span<const std::byte> response() const { return std::span(output).first(output_bytes); }
};

using RequestList = boost::intrusive::list<Request, boost::intrusive::constant_time_size<false>>;

/// The states of a session's newest request ids.
class Window {
 public:
  struct Slot {
    std::uint64_t id = 0;
    Request* request = nullptr;  // null unless the request is being received, computed or kept
    /// Meaningful only while the member `request` is null. The ERR code with which the request was answered. kStale
    /// means that the request was answered and its response has been discarded. kNoError means that the request was
    /// never seen, or was refused with BUSY.
    wire::ErrCode error = wire::kNoError;
  };

  /// Request ids up to and including `floor` count as too old from the start.
  Window(std::uint32_t size, std::uint64_t floor) : slots_(size), floor_(floor), newest_(floor) {}

  bool stale(std::uint64_t id) const {
    return id <= floor_ || (newest_ >= slots_.size() && id <= newest_ - slots_.size());
  }

  /// Returns the slot of an id for which stale() is false. If slot.id differs from `id`, the slot still describes an
  /// id that is older by at least the window's size. That older id must be released before the new id uses the slot.
  Slot& slot(std::uint64_t id) { return slots_[id % slots_.size()]; }

  /// Assigns the released slot to a request that is being received.
  void take(Slot& slot, std::uint64_t id, Request* request) {
    slot = Slot{id, request};
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
  std::uint32_t in_flight = 0;  // requests not collected yet; if any, the session stays open
};

}  // namespace millrace::server::udp
