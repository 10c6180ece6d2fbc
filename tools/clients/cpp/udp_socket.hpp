// A connected UDP socket that sends and receives a burst of fragments a system call. Not public.
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

  /// `datagram_bytes`: the longest this client takes; longer ones are dropped. `poll`: waits at least as long
  /// need no second system call.
  Status open(const HostPort& url, std::size_t datagram_bytes, std::chrono::microseconds poll);

  /// At most kBatch pieces. What the kernel does not take is lost, as any datagram may be.
  void send(std::span<const Piece> pieces);

  /// Waits until something is there or `until` (perhaps `poll` longer), and returns how many datagrams;
  /// more than one only where `several` are expected.
  std::size_t receive(Clock::time_point now, Clock::time_point until, bool several);
  std::span<const std::byte> datagram(std::size_t i) const {
    return {room_.get() + i * datagram_bytes_, messages_[i].msg_len};
  }

  /// How often the system has said that nobody listens there, since anything came or since they were cleared.
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
