// The UDP listener: a socket, a thread, and the engine between them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "server/udp/counters.hpp"
#include "server/udp/engine.hpp"
#include "server/udp/models.hpp"
#include "server/udp/wire/keys.hpp"

namespace millrace::server::udp {

struct ListenerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;              // 0: the system chooses
  bool allow_unauthenticated = false;  // an address other machines reach, without keys
  int receive_buffer_bytes = 4 << 20;  // asked of the kernel, which may give less (net.core.rmem_max)
  int cpu = -1;                        // pins the thread; -1: not
  EngineOptions engine;
};

class Listener {
 public:
  /// What bind() would refuse of these without looking at the network: an open address without keys, options
  /// out of range, a host that is none.
  static Status check(const ListenerOptions& options, const wire::KeyRing& keys);

  /// Binds; datagrams wait in the socket until serve(). `models` is called by that thread only and must
  /// outlive the listener. kInvalidInput for an open address without keys and for options out of range;
  /// kEnvironment where the address cannot be bound.
  static Result<std::unique_ptr<Listener>> bind(const ListenerOptions& options, wire::KeyRing keys,
                                                ModelDirectory& models);

  /// Starts the thread. Once.
  virtual void serve() = 0;

  /// bind() and serve().
  static Result<std::unique_ptr<Listener>> start(const ListenerOptions& options, wire::KeyRing keys,
                                                 ModelDirectory& models);

  /// As stop(0). Waits for requests that are in pipelines, which hold memory of the listener: stop pipelines
  /// first where they may never complete.
  virtual ~Listener() = default;

  /// "127.0.0.1:43211".
  virtual const std::string& address() const = 0;
  virtual std::uint16_t port() const = 0;
  virtual const Counters& counters() const = 0;

  /// From now on (within 50 ms) clients must sign with one of these; requests that came before are answered
  /// with what they were signed with. kInvalidInput, and nothing changes, where an open address would be left
  /// without keys. Any thread.
  virtual Status replace_keys(wire::KeyRing keys) = 0;

  /// Whether clients must sign with exactly these now. Any thread.
  virtual bool has_keys(const wire::KeyRing& keys) const = 0;

  /// New requests get ERR unavailable, accepted ones their answers. Any thread.
  virtual void begin_drain() = 0;

  /// No request is being received or computed. Any thread.
  virtual bool idle() const = 0;

  /// Drains: answers accepted requests for at most `bound`, then takes back those that wait for a slot (they
  /// are answered with ERR unavailable) and ends the thread. True where all were answered within the bound.
  /// Idempotent. Any thread.
  virtual bool stop(std::chrono::milliseconds bound) = 0;
};

}  // namespace millrace::server::udp
