// The bodies of all datagrams except REQ and RSP, as server/udp/README.md defines them. A decoder returns false if the
// body contradicts itself, and never reads beyond the body. An encoder writes to `out`, which must be large enough for
// the longest form of the message, and returns the number of bytes written. Any thread may call these functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "server/udp/wire/header.hpp"

namespace millrace::server::udp::wire {

using Cookie = std::array<std::byte, 16>;

inline constexpr std::size_t kMinHelloBytes = 64;
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxVersionBytes = 64;
inline constexpr std::size_t kMaxHelloBytes = 24 + kMaxNameBytes + kMaxVersionBytes;
inline constexpr std::size_t kCookieBytes = 48;  // bytes of a COOKIE without its signature
inline constexpr std::size_t kMinPingBytes = 16;
inline constexpr std::size_t kMaxNackBits = 1024;

struct Hello {
  Cookie cookie{};  // all zero: the client has no cookie yet
  std::uint16_t fragment_bytes = kDefaultFragmentBytes;
  std::string_view name, version;  // these point into the datagram
};
bool decode(std::span<const std::byte> body, Hello& out);
std::size_t encode(const Hello& hello, std::span<std::byte> out);

enum class CookieState : std::uint16_t { kComeBack = 1, kOpen = 2 };

/// A COOKIE message without its signature. The fields are in the order in which they are sent.
struct CookieHead {
  Cookie cookie{};
  std::uint64_t epoch = 0;
  CookieState state = CookieState::kComeBack;
  std::uint16_t fragment_bytes = 0;
  std::uint16_t window = 0;
  std::uint16_t burst = kBurst;
  std::uint16_t model_error = 0;      // 0 (no error) or an ErrCode
  std::uint16_t signature_bytes = 0;  // encode() sets it
  std::uint32_t model = 0;
  std::uint32_t input_bytes = 0;
  std::uint32_t output_bytes = 0;
};
static_assert(sizeof(CookieHead) == kCookieBytes);

struct CookieReply : CookieHead {
  std::span<const std::byte> signature;  // points into the datagram
};
bool decode(std::span<const std::byte> body, CookieReply& out);
std::size_t encode(const CookieReply& reply, std::span<std::byte> out);

/// Names the fragments that a NACK asks for: bit i of `bitmap` stands for fragment base + i.
struct Nack {
  std::uint16_t base = 0;
  std::uint16_t bits = 0;
  std::array<std::byte, kMaxNackBits / 8> bitmap{};

  bool wants(std::uint32_t bit) const {
    return (std::to_integer<unsigned>(bitmap[bit / 8]) >> (bit % 8) & 1U) != 0;
  }
  void want(std::uint32_t bit) { bitmap[bit / 8] |= std::byte{1} << (bit % 8); }
};
inline constexpr std::size_t kMaxNackBytes = 4 + kMaxNackBits / 8;
bool decode(std::span<const std::byte> body, Nack& out);
std::size_t encode(const Nack& nack, std::span<std::byte> out);

enum class ErrCode : std::uint16_t {
  kMalformed = 1,
  kNoSession,
  kUnknownModel,
  kGeneration,
  kSize,
  kConflict,
  kStale,
  kDeadline,
  kUnavailable,
  kInternal,
};
inline constexpr ErrCode kNoError{};  // never sent in an ERR
inline constexpr std::array<std::string_view, 11> kErrNames = {
    "unknown",  "malformed", "no_session", "unknown_model", "generation", "size",
    "conflict", "stale",     "deadline",   "unavailable",   "internal"};
constexpr std::string_view to_string(ErrCode code) {
  const auto index = static_cast<std::size_t>(code);
  return kErrNames[index < kErrNames.size() ? index : 0];
}

struct Err {
  ErrCode code = ErrCode::kInternal;
  std::string_view message;  // points into the datagram
};
inline constexpr std::size_t kMinErrBytes = 4;
inline constexpr std::size_t kMaxErrBytes = kMinErrBytes + 512;
bool decode(std::span<const std::byte> body, Err& out);
/// Shortens the message to fit into `out` and into kMaxErrBytes. `out` must have at least kMinErrBytes.
std::size_t encode(const Err& err, std::span<std::byte> out);

enum class BusyReason : std::uint16_t { kQueue = 1, kReceiving, kWindow, kSessions, kMemory };
inline constexpr std::array<std::string_view, 6> kBusyNames = {"unknown", "queue",    "receiving",
                                                               "window",  "sessions", "memory"};
constexpr std::string_view to_string(BusyReason reason) {
  const auto index = static_cast<std::size_t>(reason);
  return kBusyNames[index < kBusyNames.size() ? index : 0];
}

struct Busy {
  BusyReason reason = BusyReason::kQueue;
  std::uint32_t retry_after_us = 0;
};
inline constexpr std::size_t kBusyBytes = 8;
bool decode(std::span<const std::byte> body, Busy& out);
std::size_t encode(const Busy& busy, std::span<std::byte> out);

struct Pong {
  std::uint64_t epoch = 0;
  bool session = false;
  bool draining = false;
};
bool decode(std::span<const std::byte> body, Pong& out);
/// Encodes the answer to a PING. `out` is as long as the PING, whose bytes after the first 16 are copied to `out`.
void encode(const Pong& pong, std::span<const std::byte> ping, std::span<std::byte> out);

}  // namespace millrace::server::udp::wire
