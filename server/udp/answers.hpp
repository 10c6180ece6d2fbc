// Writes, signs and sends the server's datagrams. Any thread may call it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "server/udp/counters.hpp"
#include "server/udp/request.hpp"
#include "server/udp/sender.hpp"
#include "server/udp/wire/messages.hpp"

namespace millrace::server::udp {

/// The `limit` for clients that have proved that they receive at their address: answers to them may have any length.
inline constexpr std::size_t kTrusted = SIZE_MAX;

class Answers {
 public:
  Answers(Sender& sender, Counters& counters) : sender_(sender), counters_(counters) {}

  /// Sends the first wire::kBurst fragments of a completed request's response, or those that the NACK `wanted` names.
  void response(const Request& request, const wire::Nack* wanted = nullptr);

  void ack(const Peer& peer, std::uint64_t id);
  void nack(const Peer& peer, std::uint64_t id, const wire::Nack& nack);
  void busy(const Peer& peer, std::uint64_t id, wire::BusyReason reason, std::uint32_t retry_after_us);

  // An answer longer than `limit` bytes is not sent, only counted. error() shortens its message to fit.
  void error(const Peer& peer, std::uint64_t id, wire::ErrCode code, std::string_view message,
             std::size_t limit = kTrusted);
  void cookie(const Peer& peer, std::uint64_t id, const wire::CookieReply& reply,
              std::size_t limit = kTrusted);
  void pong(const Peer& peer, std::uint64_t id, const wire::Pong& pong, std::span<const std::byte> ping,
            std::size_t limit);

 private:
  void one(wire::Type type, const Peer& peer, std::uint64_t id, std::span<const std::byte> body,
           std::size_t limit);
  void send(const Address& to, std::span<const Piece> pieces);

  Sender& sender_;
  Counters& counters_;
};

}  // namespace millrace::server::udp
