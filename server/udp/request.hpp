// One request in the server's memory: received, computed, kept for repetition; and the pool it comes from.
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

/// Bytes that are not cleared, and keep their memory until told otherwise.
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

/// Whom to answer, as what, and signed with what.
struct Peer {
  Address address;
  std::uint64_t client_id = 0;
  std::uint8_t key_id = 0;
  const wire::KeyRing* keys = nullptr;  // has key_id where that is not 0
};

struct Request {
  enum class State : std::uint8_t { kFree, kReceiving, kInFlight, kCompleted };

  // Written by the listener's thread, except that a pipeline thread writes the answer (error, time_us,
  // output) of one that is kInFlight and then hands it back through the engine's stack of done ones.
  State state = State::kFree;
  Engine* engine = nullptr;
  Session* session = nullptr;
  Peer peer;
  std::shared_ptr<const wire::KeyRing> keys;  // the peer's, whatever keys the server is given meanwhile
  std::uint64_t id = 0;
  std::uint16_t fragment_bytes = 0;  // of the response
  std::shared_ptr<ServedModel> model;
  models::Passage passage;  // who answers it
  std::uint32_t handle = 0;
  Buffer input, output;
  wire::Assembly assembly;
  runtime::pipeline::Frame frame;
  std::uint16_t error = 0;  // wire::ErrCode, or 0: the response is in `output`
  bool refused = false;     // it was answered with BUSY: as if it had never been seen
  std::uint32_t output_bytes = 0;
  std::uint32_t time_us = 0;

  Clock::time_point started;   // first fragment
  Clock::time_point whole;     // last fragment
  Clock::time_point next_ask;  // NACK due
  Clock::time_point expires;   // forgotten where not whole by then
  std::chrono::nanoseconds ask_interval{0};
  unsigned asks = 0;  // NACKs since the last new fragment

  std::size_t receiving_index = 0;             // in the engine's list
  Request* next_done = nullptr;                // in the stack of completed ones
  Request *older = nullptr, *newer = nullptr;  // in the pool's list of kept ones

  std::size_t capacity() const { return input.capacity() + output.capacity(); }
  std::span<std::byte> response() { return {output.data(), output_bytes}; }
};

/// Requests and their memory, both bounded. The listener's thread only.
class RequestPool {
 public:
  RequestPool(std::size_t max_requests, std::uint64_t max_bytes);

  /// A request with room for both; null where a bound is reached and nothing kept is left to give up. Where
  /// it must give up a kept request it calls evict(r), which forgets it and gives it back through put().
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

  /// Back to the pool; not in the list of kept ones.
  void put(Request* request);

  /// Into the list of completed requests that may be given up, as the newest; and out of it.
  void keep(Request* request);
  void forget(Request* request);

  template <class F>
  void each(F&& f) {
    for (const auto& request : made_) f(*request);
  }

  std::uint64_t bytes() const { return bytes_; }
  std::size_t taken() const { return made_.size() - free_.size(); }

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
