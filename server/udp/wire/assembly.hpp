// Puts the fragments of one message together, and says which ones to ask for. Used by the server for REQ and
// by clients for RSP. Not thread-safe; keeps its memory from message to message.
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

  /// Starts a message; `into` has layout.total bytes and must stay where it is until the message is complete
  /// or given up.
  void start(const Layout& layout, std::span<std::byte> into);

  Outcome add(const Layout& layout, std::uint32_t index, std::span<const std::byte> payload);

  bool complete() const { return received_ == layout_.count; }
  const Layout& layout() const { return layout_; }

  /// All that was sent unasked or asked for is here, and more is missing: time to ask for the next fragments.
  bool wants_more() const { return !complete() && first_missing_ >= asked_; }

  /// Fills `nack` with missing fragments, at most kBurst: those already asked for, else the next ones (which
  /// then count as asked for). False where nothing is missing.
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
