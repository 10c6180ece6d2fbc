// The UDP listener: a socket, and a thread that passes datagrams between the socket and the engine.
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
  std::uint16_t port = 0;              // 0: the system chooses a port
  bool allow_unauthenticated = false;  // allow addresses that other machines reach, without keys
  EngineOptions engine;
};

class Listener {
 public:
  /// Returns those errors of bind() that can be detected without a network: an unknown host, and missing keys for an
  /// address that other machines reach.
  static Status check(const ListenerOptions& options, const wire::KeyRing& keys);

  /// Binds the address. Datagrams wait in the socket until serve() is called. Only the listener's thread calls
  /// `models`, which must outlive the listener. Returns kInvalidInput if other machines reach the address but there
  /// are no keys, and kEnvironment if the address cannot be bound.
  static Result<std::unique_ptr<Listener>> bind(const ListenerOptions& options, wire::KeyRing keys,
                                                ModelDirectory& models);

  /// Calls stop(0). Waits for requests in pipelines, because they use the listener's memory. A pipeline that may never
  /// complete must be stopped first.
  ~Listener() { stop(std::chrono::milliseconds(0)); }

  /// Starts the listener's thread. Must be called only once.
  void serve();

  /// Returns the bound address, such as "127.0.0.1:43211".
  std::string address() const { return to_string(socket_->local()); }
  std::uint16_t port() const { return socket_->local().port(); }
  const Counters& counters() const { return counters_; }

  /// Within 50 ms, requires clients to sign with one of these keys. Answers to earlier requests are signed with the
  /// keys of those requests. Returns kInvalidInput and changes nothing if there are no keys but other machines reach
  /// the address. Any thread may call it.
  Status replace_keys(wire::KeyRing keys);

  /// Whether `keys` are exactly the keys that clients must sign with now. Any thread may call it.
  bool has_keys(const wire::KeyRing& keys) const;

  /// From now on, answers new requests with ERR unavailable, but computes accepted ones. Any thread may call it.
  void begin_drain() { engine_->drain(); }

  /// Returns true if no request is being received or computed. Any thread may call it.
  bool idle() const { return engine_->in_flight() == 0 && !receiving_.load(std::memory_order_relaxed); }

  /// Answers accepted requests for at most `bound`, then cancels those that still wait for a frame slot (ERR
  /// unavailable) and ends the thread. Returns true if all were answered in time. Idempotent. Any thread may call it.
  bool stop(std::chrono::milliseconds bound);

 private:
  Listener(const ListenerOptions& options, wire::KeyRing keys)
      : options_(options), keys_(std::make_shared<const wire::KeyRing>(std::move(keys))) {}
  void run();

  // The members below are constant after bind().
  const ListenerOptions options_;
  Counters counters_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<Engine> engine_;

  mutable std::mutex keys_mutex_;              // protects keys_
  std::shared_ptr<const wire::KeyRing> keys_;  // the latest keys
  std::atomic<bool> new_keys_{false};          // the engine does not use the latest keys yet

  std::atomic<bool> stopping_{false};
  std::atomic<bool> receiving_{false};
  std::mutex stop_mutex_;  // protects thread_ and drained_ after bind()
  std::thread thread_;
  bool drained_ = true;
};

}  // namespace millrace::server::udp
