// A bound UDP socket that receives and sends many datagrams a system call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/result.hpp"
#include "server/udp/counters.hpp"
#include "server/udp/sender.hpp"

namespace millrace::server::udp {

/// "127.0.0.1", "[::1]" or "::1", "localhost"; a numeric address or a name the system resolves. True where
/// only this machine can reach it.
struct Endpoint {
  Address address;
  std::string text;  // "127.0.0.1:8001", "[::1]:8001"
  bool loopback = false;
};

class Socket final : public Sender {
 public:
  /// kEnvironment, naming the address: it does not resolve, the port is in use, not permitted. `counters`
  /// outlives it.
  static Result<std::unique_ptr<Socket>> open(const std::string& host, std::uint16_t port,
                                              int receive_buffer_bytes, Counters& counters);
  /// What open() would bind to.
  static Result<Endpoint> resolve(const std::string& host, std::uint16_t port);
  ~Socket() override;

  const Endpoint& local() const { return local_; }

  /// Waits at most `limit` (or kPoll, whichever is shorter) for a datagram, then calls f(bytes, from) for it
  /// and, where more than one was there lately or `more` says that more are to come, for all that are there,
  /// up to kBatch. Counts what the kernel dropped. One thread.
  template <class F>
  void receive(std::chrono::nanoseconds limit, bool more, F&& f) {
    const std::size_t count = fetch(limit, more);
    for (std::size_t i = 0; i < count; ++i) f(datagram(i), sender(i));
  }

  void send(const Address& to, std::span<const Piece> pieces) override;

  static constexpr std::size_t kBatch = 32;
  static constexpr std::chrono::milliseconds kPoll{50};

 private:
  struct Batch;
  Socket(int fd, Endpoint local, Counters& counters);
  std::size_t fetch(std::chrono::nanoseconds limit, bool more);
  std::span<const std::byte> datagram(std::size_t i) const;
  Address sender(std::size_t i) const;

  const int fd_;
  const Endpoint local_;
  Counters& counters_;
  const std::unique_ptr<Batch> batch_;
  std::uint32_t dropped_ = 0;  // the kernel's count, which wraps
  std::uint32_t alone_ = 0;    // datagrams in a row that came alone
};

}  // namespace millrace::server::udp
