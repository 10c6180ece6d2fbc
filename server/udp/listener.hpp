// The UDP listener: a socket, a thread, and the engine between them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/result.hpp"
#include "server/udp/counters.hpp"
#include "server/udp/engine.hpp"
#include "server/udp/models.hpp"
#include "server/udp/socket.hpp"
#include "server/udp/wire/keys.hpp"

namespace millrace::server::udp {

struct ListenerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;              // 0: the system chooses
  bool allow_unauthenticated = false;  // an address other machines reach, without keys
  EngineOptions engine;
};

class Listener {
 public:
  /// The errors of bind() that need no network: an open address without keys, an unknown host.
  static Status check(const ListenerOptions& options, const wire::KeyRing& keys);

  /// Binds the address; datagrams wait in the socket until serve(). Only the listener's thread calls
  /// `models`, which must outlive the listener. kInvalidInput for an open address without keys; kEnvironment
  /// if the address cannot be bound.
  static Result<std::unique_ptr<Listener>> bind(const ListenerOptions& options, wire::KeyRing keys,
                                                ModelDirectory& models);

  /// stop(0). Waits for requests in pipelines, which use memory of the listener. Stop pipelines that may
  /// never complete first.
  ~Listener() { stop(std::chrono::milliseconds(0)); }

  /// Starts the thread. Once.
  void serve();

  /// "127.0.0.1:43211".
  std::string address() const { return to_string(socket_->local()); }
  std::uint16_t port() const { return socket_->local().port(); }
  const Counters& counters() const { return counters_; }

  /// Within 50 ms clients must sign with one of these keys. Answers to earlier requests are signed with the
  /// keys of those requests. kInvalidInput, and nothing changes, if an open address would be without keys.
  /// Any thread.
  Status replace_keys(wire::KeyRing keys);

  /// Whether clients must sign with exactly these keys now. Any thread.
  bool has_keys(const wire::KeyRing& keys) const;

  /// From now on new requests get ERR unavailable; accepted ones are answered. Any thread.
  void begin_drain() { engine_->drain(); }

  /// True if no request is being received or computed. Any thread.
  bool idle() const { return engine_->in_flight() == 0 && !receiving_.load(std::memory_order_relaxed); }

  /// Answers accepted requests for at most `bound`, then cancels those that wait for a slot (ERR unavailable)
  /// and ends the thread. True if all were answered within the bound. Idempotent. Any thread.
  bool stop(std::chrono::milliseconds bound);

 private:
  Listener(const ListenerOptions& options, wire::KeyRing keys)
      : options_(options), keys_(std::make_shared<const wire::KeyRing>(std::move(keys))) {}
  void run();

  // Constant after bind():
  const ListenerOptions options_;
  Counters counters_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<Engine> engine_;

  mutable std::mutex keys_mutex_;              // protects keys_
  std::shared_ptr<const wire::KeyRing> keys_;  // the latest keys
  std::atomic<bool> new_keys_{false};          // the engine does not use them yet

  std::atomic<bool> stopping_{false};
  std::atomic<bool> receiving_{false};
  std::mutex stop_mutex_;  // protects thread_ and drained_ after bind()
  std::thread thread_;
  bool drained_ = true;
};

}  // namespace millrace::server::udp
