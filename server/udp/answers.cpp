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

/// Collects at most kRoom fragments of one response. Most responses have one fragment, and laying out room
/// for a burst would take longer than writing it.
template <std::size_t kRoom>
class Fragments {
 public:
  explicit Fragments(Request& request) : request_(request) {
    // A response that needs over 65,535 fragments is refused before it is computed.
    [[maybe_unused]] const bool fits =
        wire::make_layout(request.output_bytes, request.fragment_bytes, layout_);
    assert(fits);
    header_ = header_for(wire::Type::kRsp, request.peer, request.id, request.output_bytes);
    header_.frag_count = layout_.count;
    header_.model = request.handle;
    header_.time_us = request.time_us;
  }

  std::uint32_t count() const { return layout_.count; }
  bool full() const { return used_ == kRoom; }

  void add(std::uint32_t index) {
    const auto payload = request_.response().subspan(layout_.offset(index), layout_.length(index));
    header_.frag_index = static_cast<std::uint16_t>(index);
    pieces_[used_] = Piece{finish(request_.peer, header_, payload, heads_[used_]), payload};
    ++used_;
  }

  std::span<const Piece> pieces() const { return std::span(pieces_).first(used_); }

 private:
  Request& request_;
  wire::Layout layout_;
  wire::Header header_;
  std::array<Head, kRoom> heads_;
  std::array<Piece, kRoom> pieces_;
  std::size_t used_ = 0;
};

/// Gives `send` the fragments that the server sends without a NACK.
template <std::size_t kRoom, class Send>
void first_burst(Request& request, Send&& send) {
  Fragments<kRoom> fragments(request);
  for (std::uint32_t i = 0; i < fragments.count() && !fragments.full(); ++i) fragments.add(i);
  send(fragments.pieces());
}

}  // namespace

void Answers::send(const Address& to, std::span<const Piece> pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes();
  counters_.count(Event::kDatagramsSent, pieces.size());
  counters_.count(Event::kBytesSent, bytes);
  sender_.send(to, pieces);
}

void Answers::response(Request& request) {
  const auto send = [&](std::span<const Piece> pieces) { this->send(request.peer.address, pieces); };
  if (request.output_bytes <= request.fragment_bytes)
    first_burst<1>(request, send);
  else
    first_burst<kBurst>(request, send);
}

void Answers::response(Request& request, const wire::Nack& wanted) {
  Fragments<kBurst> fragments(request);
  for (std::uint32_t bit = 0; bit < wanted.bits && !fragments.full(); ++bit)
    if (wanted.wants(bit) && wanted.base + bit < fragments.count()) fragments.add(wanted.base + bit);
  if (!fragments.pieces().empty()) send(request.peer.address, fragments.pieces());
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
