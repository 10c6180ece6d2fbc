// Sends the engine's datagrams: the socket, or a test's fake.
#pragma once

#include <cstddef>
#include <span>

#include "server/udp/address.hpp"

namespace millrace::server::udp {

/// One datagram: the head (header and tag), then the payload.
struct Piece {
  std::span<const std::byte> head;
  std::span<const std::byte> payload;
  std::size_t bytes() const { return head.size() + payload.size(); }
};

class Sender {
 public:
  virtual ~Sender() = default;

  /// Sends all pieces to `to`, in order. A piece that the kernel does not take at once is lost, as any
  /// datagram may be. The bytes may be freed afterwards. Any thread; never blocks.
  virtual void send(const Address& to, std::span<const Piece> pieces) = 0;
};

}  // namespace millrace::server::udp
