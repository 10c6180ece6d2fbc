#include "server/udp/answers.hpp"

#include <algorithm>
#include <array>

namespace millrace::server::udp {
namespace {

using wire::kBurst;
using wire::kHeaderBytes;
using Head = std::array<std::byte, wire::kMaxHeaderBytes>;

wire::Header header_for(wire::Type type, const Peer& peer, std::uint64_t id, std::size_t bytes) {
  wire::Header h;
  h.type = type;
  h.from_server = true;
  h.key_id = peer.key_id;
  h.client_id = peer.client_id;
  h.request_id = id;
  h.total_len = static_cast<std::uint32_t>(bytes);
  return h;
}

std::span<const std::byte> finish(const Peer& peer, const wire::Header& header,
                                  std::span<const std::byte> payload, Head& out) {
  const std::span<std::byte, kHeaderBytes> head = std::span(out).first<kHeaderBytes>();
  wire::write_header(header, head);
  if (header.tagged())
    peer.keys->sign(header.key_id, head, payload, std::span(out).subspan<kHeaderBytes, wire::kTagBytes>());
  return std::span<const std::byte>(out).first(header.bytes());
}

}  // namespace

void Answers::send(const Address& to, std::span<const Piece> pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes();
  counters_.count(Event::kDatagramsSent, pieces.size());
  counters_.count(Event::kBytesSent, bytes);
  sender_.send(to, pieces);
}

void Answers::response(const Request& request, const wire::Nack* wanted) {
  // thread_local, because initialising these arrays on each call would take longer than writing most responses.
  thread_local std::array<Head, kBurst> heads;
  thread_local std::array<Piece, kBurst> pieces;
  wire::Layout layout;
  // A request whose response would need over 65,535 fragments was refused before it was computed.
  [[maybe_unused]] const bool fits = wire::make_layout(request.output_bytes, request.fragment_bytes, layout);
  assert(fits);
  wire::Header header = header_for(wire::Type::kRsp, request.peer, request.id, request.output_bytes);
  header.frag_count = layout.count;
  header.model = request.handle;
  header.time_us = request.time_us;

  const std::uint32_t first = wanted == nullptr ? 0 : wanted->base;
  const std::uint32_t end =
      wanted == nullptr ? layout.count : std::min<std::uint32_t>(layout.count, first + wanted->bits);
  std::size_t used = 0;
  for (std::uint32_t i = first; i < end && used < kBurst; ++i) {
    if (wanted != nullptr && !wanted->wants(i - first)) continue;
    const auto payload = request.response().subspan(layout.offset(i), layout.length(i));
    header.frag_index = static_cast<std::uint16_t>(i);
    pieces[used] = Piece{finish(request.peer, header, payload, heads[used]), payload};
    ++used;
  }
  if (used != 0) send(request.peer.address, std::span(pieces).first(used));
}

void Answers::one(wire::Type type, const Peer& peer, std::uint64_t id, std::span<const std::byte> body,
                  std::size_t limit) {
  const wire::Header header = header_for(type, peer, id, body.size());
  if (header.bytes() + body.size() > limit) {
    counters_.count(Drop::kAmplification);
    return;
  }
  Head head;
  const Piece piece{finish(peer, header, body, head), body};
  send(peer.address, std::span(&piece, 1));
}

void Answers::ack(const Peer& peer, std::uint64_t id) {
  counters_.count(Event::kAcks);
  one(wire::Type::kAck, peer, id, {}, kTrusted);
}

void Answers::nack(const Peer& peer, std::uint64_t id, const wire::Nack& nack) {
  counters_.count(Event::kNacksSent);
  std::array<std::byte, wire::kMaxNackBytes> body;
  one(wire::Type::kNack, peer, id, std::span(body).first(encode(nack, body)), kTrusted);
}

void Answers::busy(const Peer& peer, std::uint64_t id, wire::BusyReason reason,
                   std::uint32_t retry_after_us) {
  counters_.count(reason);
  std::array<std::byte, wire::kBusyBytes> body;
  one(wire::Type::kBusy, peer, id, std::span(body).first(encode(wire::Busy{reason, retry_after_us}, body)),
      kTrusted);
}

void Answers::error(const Peer& peer, std::uint64_t id, wire::ErrCode code, std::string_view message,
                    std::size_t limit) {
  counters_.count(code);
  std::array<std::byte, wire::kMaxErrBytes> body;
  const std::size_t head = peer.key_id != 0 ? wire::kMaxHeaderBytes : kHeaderBytes;
  const std::size_t room = limit > head ? std::min(limit - head, body.size()) : 0;
  const std::span<std::byte> fitting = std::span(body).first(std::max(room, wire::kMinErrBytes));
  one(wire::Type::kErr, peer, id, fitting.first(encode(wire::Err{code, message}, fitting)), limit);
}

void Answers::cookie(const Peer& peer, std::uint64_t id, const wire::CookieReply& reply, std::size_t limit) {
  std::array<std::byte, wire::kCookieBytes + wire::kMaxFragmentBytes> body;
  one(wire::Type::kCookie, peer, id, std::span(body).first(encode(reply, body)), limit);
}

void Answers::pong(const Peer& peer, std::uint64_t id, const wire::Pong& pong,
                   std::span<const std::byte> ping, std::size_t limit) {
  std::array<std::byte, wire::kMaxDatagramBytes> body;
  encode(pong, ping, body);
  one(wire::Type::kPong, peer, id, std::span(body).first(ping.size()), limit);
}

}  // namespace millrace::server::udp
