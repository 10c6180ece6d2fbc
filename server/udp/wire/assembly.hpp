// Assembles the fragments of one message and says which ones to ask for. The server uses it for REQ, clients
// for RSP. Not thread-safe; reuses its memory for the next message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/udp/wire/header.hpp"
#include "server/udp/wire/messages.hpp"

namespace millrace::server::udp::wire {

class Assembly {
 public:
  enum class Outcome {
    kAdded,      // new, and more is missing
    kComplete,   // new, and the last one missing
    kDuplicate,  // there already, the same bytes
    kConflict,   // another layout, or other bytes than those there already
  };

  /// Starts a message. `into` has layout.total bytes and must live until the message is complete or dropped.
  void start(const Layout& layout, std::span<std::byte> into);

  Outcome add(const Layout& layout, std::uint32_t index, std::span<const std::byte> payload);

  bool complete() const { return received_ == layout_.count; }

  /// True if all fragments sent so far have arrived and more are missing, so the next ones must be asked for.
  bool wants_more() const { return !complete() && first_missing_ >= asked_; }

  /// Fills `nack` with at most kBurst missing fragments: first those already asked for, then the next ones,
  /// which then count as asked for. False if none is missing.
  bool ask(Nack& nack);

 private:
  bool has(std::uint32_t index) const { return (map_[index / 64] >> (index % 64) & 1U) != 0; }

  Layout layout_;
  std::span<std::byte> into_;
  std::vector<std::uint64_t> map_;
  std::uint32_t received_ = 0;
  std::uint32_t first_missing_ = 0;
  std::uint32_t asked_ = 0;  // fragments below were sent unasked or asked for
};

}  // namespace millrace::server::udp::wire
