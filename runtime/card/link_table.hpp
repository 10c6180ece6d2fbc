// The link table of a card (image_abi.hpp) through its control registers.
#pragma once

#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"

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
};

/// Takes row `index` out of service, writes it, and reads it back: kEnvironment where the card did not keep
/// it.
Status write_link_row(Card& card, std::uint32_t index, const LinkRow& row);
Status enable_link(Card& card, std::uint32_t index, bool enabled);
Result<LinkCounters> read_link(Card& card, std::uint32_t index);

/// A 64-bit counter in two registers, read so that a carry between the two reads does not show.
Result<std::uint64_t> read_counter(Card& card, std::uint32_t low_offset, std::uint32_t high_offset);

}  // namespace millrace::runtime::card
