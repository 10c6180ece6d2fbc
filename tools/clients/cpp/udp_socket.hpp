// A connected UDP socket that sends or receives many datagrams with one system call. Not part of the public interface.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "server/udp/wire/header.hpp"
#include "transport.hpp"

namespace millrace::client {

class UdpSocket {
 public:
  static constexpr std::size_t kBatch = server::udp::wire::kBurst;
  struct Piece {
    std::span<const std::byte> head, payload;
  };

  UdpSocket() = default;
  ~UdpSocket();
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  /// Opens the socket. Datagrams longer than `datagram_bytes` are dropped. `poll` is the socket's receive timeout: a
  /// receive() that may wait at least that long needs no second system call.
  Status open(const HostPort& url, std::size_t datagram_bytes, std::chrono::microseconds poll);

  /// Sends at most kBatch datagrams. If the kernel does not accept a datagram, it is lost.
  void send(std::span<const Piece> pieces);

  /// Waits until datagrams arrive or until `until`, possibly longer by the `poll` of open(). Returns the number of
  /// datagrams, which exceeds one only if `several` is true.
  std::size_t receive(Clock::time_point now, Clock::time_point until, bool several);
  std::span<const std::byte> datagram(std::size_t i) const {
    return {room_.get() + i * datagram_bytes_, messages_[i].msg_len};
  }

  /// Returns how often the system has reported that nothing listens at the server's port, since the last datagram
  /// arrived or since the count was cleared.
  unsigned refusals() const { return refusals_; }
  void clear_refusals() { refusals_ = 0; }

 private:
  int fd_ = -1;
  std::size_t datagram_bytes_ = 0;
  std::chrono::microseconds poll_{0};
  unsigned refusals_ = 0;
  std::unique_ptr<std::byte[]> room_;
  std::array<mmsghdr, kBatch> messages_{};
  std::array<iovec, kBatch> parts_{};
};

}  // namespace millrace::client
