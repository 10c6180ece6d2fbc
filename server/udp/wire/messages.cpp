#include "server/udp/wire/messages.hpp"

#include <algorithm>

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp::wire {
namespace {

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The fields of a message that precede its texts or bitmap, in the order in which they are sent.
struct HelloHead {
  Cookie cookie;
  std::uint16_t fragment_bytes, name_bytes, version_bytes, zero;
};
struct NackHead {
  std::uint16_t base, bits;
};
struct ErrHead {
  ErrCode code;
  std::uint16_t message_bytes;
};
struct BusyBody {
  BusyReason reason;
  std::uint16_t zero;
  std::uint32_t retry_after_us;
};
struct PongHead {
  std::uint64_t epoch;
  std::uint32_t bits, zero;
};

void put(std::span<std::byte> out, std::size_t offset, std::string_view value) {
  std::copy_n(reinterpret_cast<const std::byte*>(value.data()), value.size(), out.data() + offset);
}

}  // namespace

bool decode(std::span<const std::byte> body, Hello& out) {
  if (body.size() < kMinHelloBytes) return false;
  const auto head = load<HelloHead>(body, 0);
  if (head.fragment_bytes < kMinFragmentBytes || head.fragment_bytes > kMaxFragmentBytes) return false;
  if (head.name_bytes > kMaxNameBytes || head.version_bytes > kMaxVersionBytes || head.zero != 0)
    return false;
  if (sizeof head + head.name_bytes + head.version_bytes > body.size()) return false;
  out.cookie = head.cookie;
  out.fragment_bytes = head.fragment_bytes;
  out.name = text(body.subspan(sizeof head, head.name_bytes));
  out.version = text(body.subspan(sizeof head + head.name_bytes, head.version_bytes));
  return true;
}

std::size_t encode(const Hello& hello, std::span<std::byte> out) {
  const auto name = static_cast<std::uint16_t>(hello.name.size());
  const auto version = static_cast<std::uint16_t>(hello.version.size());
  const std::size_t length = std::max(sizeof(HelloHead) + name + version, kMinHelloBytes);
  std::fill_n(out.data(), length, std::byte{0});
  store(out, 0, HelloHead{hello.cookie, hello.fragment_bytes, name, version, 0});
  put(out, sizeof(HelloHead), hello.name);
  put(out, sizeof(HelloHead) + name, hello.version);
  return length;
}

bool decode(std::span<const std::byte> body, CookieReply& out) {
  if (body.size() < kCookieBytes) return false;
  static_cast<CookieHead&>(out) = load<CookieHead>(body, 0);
  out.signature = body.subspan(kCookieBytes);
  return (out.state == CookieState::kComeBack || out.state == CookieState::kOpen) &&
         out.signature.size() == out.signature_bytes;
}

std::size_t encode(const CookieReply& reply, std::span<std::byte> out) {
  CookieHead head = reply;
  head.signature_bytes = static_cast<std::uint16_t>(reply.signature.size());
  store(out, 0, head);
  std::copy(reply.signature.begin(), reply.signature.end(), out.data() + kCookieBytes);
  return kCookieBytes + reply.signature.size();
}

bool decode(std::span<const std::byte> body, Nack& out) {
  if (body.size() < 5) return false;
  const auto head = load<NackHead>(body, 0);
  if (head.bits == 0 || head.bits > kMaxNackBits || head.base + head.bits > 0xFFFF) return false;
  const std::size_t bytes = (head.bits + 7U) / 8U;
  if (body.size() != sizeof head + bytes) return false;
  out = Nack{head.base, head.bits, {}};
  std::copy_n(body.data() + sizeof head, bytes, out.bitmap.data());
  const unsigned beyond = static_cast<unsigned>(bytes * 8 - head.bits);
  return std::to_integer<unsigned>(out.bitmap[bytes - 1]) >> (8 - beyond) == 0;
}

std::size_t encode(const Nack& nack, std::span<std::byte> out) {
  const std::size_t bytes = (nack.bits + 7U) / 8U;
  store(out, 0, NackHead{nack.base, nack.bits});
  std::copy_n(nack.bitmap.data(), bytes, out.data() + sizeof(NackHead));
  return sizeof(NackHead) + bytes;
}

bool decode(std::span<const std::byte> body, Err& out) {
  if (body.size() < kMinErrBytes) return false;
  const auto head = load<ErrHead>(body, 0);
  out = {head.code, text(body.subspan(kMinErrBytes))};
  return head.code >= ErrCode::kMalformed && head.code <= ErrCode::kInternal &&
         out.message.size() == head.message_bytes;
}

std::size_t encode(const Err& err, std::span<std::byte> out) {
  const std::size_t room = std::min(out.size(), kMaxErrBytes) - kMinErrBytes;
  const std::string_view message = err.message.substr(0, room);
  store(out, 0, ErrHead{err.code, static_cast<std::uint16_t>(message.size())});
  put(out, kMinErrBytes, message);
  return kMinErrBytes + message.size();
}

bool decode(std::span<const std::byte> body, Busy& out) {
  if (body.size() != kBusyBytes) return false;
  const auto raw = load<BusyBody>(body, 0);
  out = {raw.reason, raw.retry_after_us};
  return raw.reason >= BusyReason::kQueue && raw.reason <= BusyReason::kMemory;
}

std::size_t encode(const Busy& busy, std::span<std::byte> out) {
  store(out, 0, BusyBody{busy.reason, 0, busy.retry_after_us});
  return kBusyBytes;
}

bool decode(std::span<const std::byte> body, Pong& out) {
  if (body.size() < kMinPingBytes) return false;
  const auto head = load<PongHead>(body, 0);
  out = {head.epoch, (head.bits & 1U) != 0, (head.bits & 2U) != 0};
  return true;
}

void encode(const Pong& pong, std::span<const std::byte> ping, std::span<std::byte> out) {
  std::copy(ping.begin(), ping.end(), out.begin());
  store(out, 0, PongHead{pong.epoch, (pong.session ? 1U : 0U) | (pong.draining ? 2U : 0U), 0});
}

}  // namespace millrace::server::udp::wire
