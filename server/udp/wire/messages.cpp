#include "server/udp/wire/messages.hpp"

#include <algorithm>

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp::wire {
namespace {

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put(std::span<std::byte> out, std::size_t offset, std::string_view value) {
  std::copy_n(reinterpret_cast<const std::byte*>(value.data()), value.size(), out.data() + offset);
}

}  // namespace

bool decode(std::span<const std::byte> body, Hello& out) {
  if (body.size() < kMinHelloBytes) return false;
  std::copy_n(body.data(), out.cookie.size(), out.cookie.data());
  out.fragment_bytes = load<std::uint16_t>(body, 16);
  const auto name = load<std::uint16_t>(body, 18);
  const auto version = load<std::uint16_t>(body, 20);
  if (out.fragment_bytes < kMinFragmentBytes || out.fragment_bytes > kMaxFragmentBytes) return false;
  if (name > kMaxNameBytes || version > kMaxVersionBytes || load<std::uint16_t>(body, 22) != 0) return false;
  if (24U + name + version > body.size()) return false;
  out.name = text(body.subspan(24, name));
  out.version = text(body.subspan(24U + name, version));
  return true;
}

std::size_t encode(const Hello& hello, std::span<std::byte> out) {
  const std::size_t used = 24 + hello.name.size() + hello.version.size();
  const std::size_t length = std::max(used, kMinHelloBytes);
  std::fill_n(out.data(), length, std::byte{0});
  std::copy(hello.cookie.begin(), hello.cookie.end(), out.begin());
  store<std::uint16_t>(out, 16, hello.fragment_bytes);
  store<std::uint16_t>(out, 18, static_cast<std::uint16_t>(hello.name.size()));
  store<std::uint16_t>(out, 20, static_cast<std::uint16_t>(hello.version.size()));
  put(out, 24, hello.name);
  put(out, 24 + hello.name.size(), hello.version);
  return length;
}

bool decode(std::span<const std::byte> body, CookieReply& out) {
  if (body.size() < kCookieBytes) return false;
  std::copy_n(body.data(), out.cookie.size(), out.cookie.data());
  out.epoch = load<std::uint64_t>(body, 16);
  const auto state = load<std::uint16_t>(body, 24);
  if (state != 1 && state != 2) return false;
  out.state = static_cast<CookieState>(state);
  out.fragment_bytes = load<std::uint16_t>(body, 26);
  out.window = load<std::uint16_t>(body, 28);
  out.burst = load<std::uint16_t>(body, 30);
  out.model_error = load<std::uint16_t>(body, 32);
  const auto signature = load<std::uint16_t>(body, 34);
  out.model = load<std::uint32_t>(body, 36);
  out.input_bytes = load<std::uint32_t>(body, 40);
  out.output_bytes = load<std::uint32_t>(body, 44);
  if (body.size() != kCookieBytes + signature) return false;
  out.signature = body.subspan(kCookieBytes);
  return true;
}

std::size_t encode(const CookieReply& reply, std::span<std::byte> out) {
  std::copy(reply.cookie.begin(), reply.cookie.end(), out.begin());
  store<std::uint64_t>(out, 16, reply.epoch);
  store<std::uint16_t>(out, 24, static_cast<std::uint16_t>(reply.state));
  store<std::uint16_t>(out, 26, reply.fragment_bytes);
  store<std::uint16_t>(out, 28, reply.window);
  store<std::uint16_t>(out, 30, reply.burst);
  store<std::uint16_t>(out, 32, reply.model_error);
  store<std::uint16_t>(out, 34, static_cast<std::uint16_t>(reply.signature.size()));
  store<std::uint32_t>(out, 36, reply.model);
  store<std::uint32_t>(out, 40, reply.input_bytes);
  store<std::uint32_t>(out, 44, reply.output_bytes);
  std::copy(reply.signature.begin(), reply.signature.end(), out.data() + kCookieBytes);
  return kCookieBytes + reply.signature.size();
}

bool decode(std::span<const std::byte> body, Nack& out) {
  if (body.size() < 5) return false;
  out.base = load<std::uint16_t>(body, 0);
  out.bits = load<std::uint16_t>(body, 2);
  if (out.bits == 0 || out.bits > kMaxNackBits || out.base + out.bits > 0xFFFF) return false;
  const std::size_t bytes = (out.bits + 7U) / 8U;
  if (body.size() != 4 + bytes) return false;
  out.bitmap.fill(std::byte{0});
  std::copy_n(body.data() + 4, bytes, out.bitmap.data());
  const unsigned beyond = static_cast<unsigned>(bytes * 8 - out.bits);
  return std::to_integer<unsigned>(out.bitmap[bytes - 1]) >> (8 - beyond) == 0;
}

std::size_t encode(const Nack& nack, std::span<std::byte> out) {
  const std::size_t bytes = (nack.bits + 7U) / 8U;
  store<std::uint16_t>(out, 0, nack.base);
  store<std::uint16_t>(out, 2, nack.bits);
  std::copy_n(nack.bitmap.data(), bytes, out.data() + 4);
  return 4 + bytes;
}

bool decode(std::span<const std::byte> body, Err& out) {
  if (body.size() < kMinErrBytes) return false;
  const auto code = load<std::uint16_t>(body, 0);
  const auto length = load<std::uint16_t>(body, 2);
  if (code < 1 || code > static_cast<std::uint16_t>(ErrCode::kInternal) ||
      body.size() != kMinErrBytes + length)
    return false;
  out.code = static_cast<ErrCode>(code);
  out.message = text(body.subspan(kMinErrBytes));
  return true;
}

std::size_t encode(const Err& err, std::span<std::byte> out) {
  const std::size_t room = std::min(out.size(), kMaxErrBytes) - kMinErrBytes;
  const std::string_view message = err.message.substr(0, room);
  store<std::uint16_t>(out, 0, static_cast<std::uint16_t>(err.code));
  store<std::uint16_t>(out, 2, static_cast<std::uint16_t>(message.size()));
  put(out, kMinErrBytes, message);
  return kMinErrBytes + message.size();
}

bool decode(std::span<const std::byte> body, Busy& out) {
  if (body.size() != kBusyBytes) return false;
  const auto reason = load<std::uint16_t>(body, 0);
  if (reason < 1 || reason > static_cast<std::uint16_t>(BusyReason::kMemory)) return false;
  out.reason = static_cast<BusyReason>(reason);
  out.retry_after_us = load<std::uint32_t>(body, 4);
  return true;
}

std::size_t encode(const Busy& busy, std::span<std::byte> out) {
  store<std::uint16_t>(out, 0, static_cast<std::uint16_t>(busy.reason));
  store<std::uint16_t>(out, 2, 0);
  store<std::uint32_t>(out, 4, busy.retry_after_us);
  return kBusyBytes;
}

bool decode(std::span<const std::byte> body, Pong& out) {
  if (body.size() < kMinPingBytes) return false;
  out.epoch = load<std::uint64_t>(body, 0);
  const auto bits = load<std::uint32_t>(body, 8);
  out.session = (bits & 1U) != 0;
  out.draining = (bits & 2U) != 0;
  return true;
}

void encode(const Pong& pong, std::span<const std::byte> ping, std::span<std::byte> out) {
  std::copy(ping.begin(), ping.end(), out.begin());
  store<std::uint64_t>(out, 0, pong.epoch);
  store<std::uint32_t>(out, 8, (pong.session ? 1U : 0U) | (pong.draining ? 2U : 0U));
  store<std::uint32_t>(out, 12, 0);
}

}  // namespace millrace::server::udp::wire
