// Assembles a message from its fragments and determines which fragments to ask for. The server assembles requests
// (REQ), clients assemble responses (RSP). Not thread-safe. The memory is reused for the next message.
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
    kAdded,      // a new fragment; others are still missing
    kComplete,   // the last missing fragment
    kDuplicate,  // the same bytes as a fragment received before
    kConflict,   // another layout, or other bytes than received before
  };

  /// Starts a message. `into` must have layout.total bytes and live until the message is complete or dropped.
  void start(const Layout& layout, std::span<std::byte> into);

  Outcome add(const Layout& layout, std::uint32_t index, std::span<const std::byte> payload);

  bool complete() const { return received_ == layout_.count; }

  /// Returns true if all fragments sent so far have arrived but the message is incomplete, so the receiver must ask
  /// for the next fragments.
  bool wants_more() const { return !complete() && first_missing_ >= asked_; }

  /// Names at most kBurst missing fragments in `nack`: first those already asked for, then the next fragments, which
  /// from then on count as asked for. Returns false if no fragment is missing.
  bool ask(Nack& nack);

 private:
  bool has(std::uint32_t index) const { return (map_[index / 64] >> (index % 64) & 1U) != 0; }

  Layout layout_;
  std::span<std::byte> into_;
  std::vector<std::uint64_t> map_;
  std::uint32_t received_ = 0;
  std::uint32_t first_missing_ = 0;
  std::uint32_t asked_ = 0;  // all fragments below this index were sent or asked for
};

}  // namespace millrace::server::udp::wire
