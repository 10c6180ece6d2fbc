// One request, from its first fragment until its answer is no longer kept, and the pool that requests come
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/pipeline/pipeline.hpp"
#include "server/udp/address.hpp"
#include "server/udp/models.hpp"
#include "server/udp/wire/assembly.hpp"
#include "server/udp/wire/keys.hpp"

namespace millrace::server::udp {

using runtime::pipeline::Clock;
class Engine;
struct Session;

/// Uninitialised bytes that keep their memory until release().
class Buffer {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= capacity_) return;
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    capacity_ = bytes;
  }
  void release() {
    bytes_.reset();
    capacity_ = 0;
  }
  std::byte* data() { return bytes_.get(); }
  std::size_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
};

/// The client to answer, and the key to sign with.
struct Peer {
  Address address;
  std::uint64_t client_id = 0;
  std::uint8_t key_id = 0;
  const wire::KeyRing* keys = nullptr;  // has key_id where that is not 0
};

struct Request {
  enum class State : std::uint8_t { kFree, kReceiving, kInFlight, kCompleted };

  // Written by the listener's thread. While the request is kInFlight, a pipeline thread writes the answer
  // (error, time_us, output) and returns the request through the engine's done_.
  State state = State::kFree;
  Engine* engine = nullptr;
  Session* session = nullptr;
  Peer peer;
  std::shared_ptr<const wire::KeyRing> keys;  // keeps peer.keys alive
  std::uint64_t id = 0;
  std::uint16_t fragment_bytes = 0;  // of the response
  std::shared_ptr<ServedModel> model;
  models::Passage passage;
  std::uint32_t handle = 0;
  Buffer input, output;
  wire::Assembly assembly;
  runtime::pipeline::Frame frame;
  std::uint16_t error = 0;  // wire::ErrCode, or 0: the response is in `output`
  bool refused = false;     // answered with BUSY, so collect() drops the request
  std::uint32_t output_bytes = 0;
  std::uint32_t time_us = 0;

  Clock::time_point started;   // first fragment
  Clock::time_point whole;     // last fragment
  Clock::time_point next_ask;  // NACK due
  Clock::time_point expires;   // dropped if not complete by then
  std::chrono::nanoseconds ask_interval{0};
  unsigned asks = 0;  // NACKs since the last new fragment

  std::size_t receiving_index = 0;             // in the engine's list
  Request* next_done = nullptr;                // in the stack of completed ones
  Request *older = nullptr, *newer = nullptr;  // in the pool's list of kept ones

  std::size_t capacity() const { return input.capacity() + output.capacity(); }
  std::span<std::byte> response() { return {output.data(), output_bytes}; }
};

/// A bounded number of requests with bounded memory. Only for the listener's thread.
class RequestPool {
 public:
  RequestPool(std::size_t max_requests, std::uint64_t max_bytes);

  /// A request with buffers of these sizes. At a bound, takes the oldest kept request r from its owner: calls
  /// evict(r), which must drop r and put() it back. Null at a bound without kept requests.
  template <class Evict>
  Request* take(std::size_t input_bytes, std::size_t output_bytes, Evict&& evict) {
    while (true) {
      if (Request* r = try_take(input_bytes, output_bytes)) return r;
      if (oldest_ == nullptr) return nullptr;
      Request* r = oldest_;
      forget(r);
      evict(*r);
    }
  }

  /// Returns a request to the pool. It must not be in the list of kept ones.
  void put(Request* request);

  /// Adds a completed request, as the newest, to the list of those that may be evicted; removes it from the
  /// list.
  void keep(Request* request);
  void forget(Request* request);

  template <class F>
  void each(F&& f) {
    for (const auto& request : made_) f(*request);
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  Request* try_take(std::size_t input_bytes, std::size_t output_bytes);

  const std::size_t max_requests_;
  const std::uint64_t max_bytes_;
  std::vector<std::unique_ptr<Request>> made_;
  std::vector<Request*> free_;
  std::uint64_t bytes_ = 0;
  Request *oldest_ = nullptr, *newest_ = nullptr;
};

}  // namespace millrace::server::udp
