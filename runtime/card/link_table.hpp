// Access to a card's link table (image_abi.hpp) through the card's control registers.
#pragma once

#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::card {

struct LinkRow {
  std::uint32_t connector = 0;
  std::uint32_t tag = 0;
  std::uint32_t packet_bytes = 0;
  std::uint32_t credits = 0;
  bool operator==(const LinkRow&) const = default;
};

struct LinkCounters {
  bool cable_present = false;
  bool peer_in_service = false;
  std::uint64_t packets = 0, bytes = 0, stalls = 0;
  std::uint32_t repeats = 0, damaged = 0, dropped = 0;  // modulo 2^32
  plan::abi::LinkState state = plan::abi::LinkState::kDown;
};

/// Disables the link of row `index`, writes the row, and reads it back. Returns kEnvironment if the values read back
/// differ from those written.
Status write_link_row(Card& card, std::uint32_t index, const LinkRow& row);
Status enable_link(Card& card, std::uint32_t index, bool enabled);
Result<LinkCounters> read_link(Card& card, std::uint32_t index);

/// Reads a 64-bit counter from two registers, correctly even if the low one overflows between the reads.
Result<std::uint64_t> read_counter(Card& card, std::uint32_t low_offset, std::uint32_t high_offset);

}  // namespace millrace::runtime::card
