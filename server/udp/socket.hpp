// A bound UDP socket that can receive or send many datagrams with one system call.
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

/// Returns address and port, such as "127.0.0.1:8001" or "[::1]:8001".
std::string to_string(const Address& address);

class Socket final : public Sender {
 public:
  /// Opens a socket bound to `host`, a numeric address ("127.0.0.1", "[::1]") or a host name. Returns kEnvironment,
  /// naming the address, if it does not resolve, is in use or is not permitted. `counters` must outlive the socket.
  static Result<std::unique_ptr<Socket>> open(const std::string& host, std::uint16_t port,
                                              Counters& counters);
  /// Returns the address that open() would bind to.
  static Result<Address> resolve(const std::string& host, std::uint16_t port);
  ~Socket() override;

  const Address& local() const { return local_; }

  /// Waits for a datagram, for at most `limit` and at most kPoll, and calls f(bytes, from) for it. Receives up to
  /// kBatch datagrams at once if several arrived recently or `more` says that several are expected. Counts the
  /// datagrams that the kernel dropped. Only one thread may call it.
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
  Socket(int fd, const Address& local, Counters& counters);
  std::size_t fetch(std::chrono::nanoseconds limit, bool more);
  std::span<const std::byte> datagram(std::size_t i) const;
  Address sender(std::size_t i) const;

  const int fd_;
  const Address local_;
  Counters& counters_;
  const std::unique_ptr<Batch> batch_;
  std::uint32_t dropped_ = 0;  // the kernel's own count, which wraps around
  std::uint32_t alone_ = 0;    // successive datagrams that arrived one by one
};

}  // namespace millrace::server::udp
