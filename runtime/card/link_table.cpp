#include "runtime/card/link_table.hpp"

#include <string>

namespace millrace::runtime::card {

namespace abi = plan::abi;

namespace {

std::uint32_t row_base(std::uint32_t index) {
  return abi::kLinkTable + index * abi::kLinkRowBytes;
}

Status check_index(std::uint32_t index) {
  if (index < abi::kMaxLinkPorts) return {};
  return Error(ErrorCode::kInvalidInput, "link table row " + std::to_string(index) + ": a card has " +
                                             std::to_string(abi::kMaxLinkPorts) + " rows");
}

Status write_checked(Card& card, std::uint32_t offset, std::uint32_t value) {
  MILLRACE_TRY(card.write(offset, value));
  MILLRACE_ASSIGN(const std::uint32_t kept, card.read(offset));
  if (kept == value) return {};
  return Error(ErrorCode::kEnvironment, "control register " + std::to_string(offset) + " kept " +
                                            std::to_string(kept) + " where " + std::to_string(value) +
                                            " was written; "
                                            "the image may have been built for another ABI version");
}

}  // namespace

Status write_link_row(Card& card, std::uint32_t index, const LinkRow& row) {
  MILLRACE_TRY(check_index(index));
  const std::uint32_t base = row_base(index);
  MILLRACE_TRY(write_checked(card, base + abi::kLinkEnable, 0));
  MILLRACE_TRY(write_checked(card, base + abi::kLinkConnector, row.connector));
  MILLRACE_TRY(write_checked(card, base + abi::kLinkTag, row.tag));
  MILLRACE_TRY(write_checked(card, base + abi::kLinkPacketBytes, row.packet_bytes));
  return write_checked(card, base + abi::kLinkCredits, row.credits);
}

Status enable_link(Card& card, std::uint32_t index, bool enabled) {
  MILLRACE_TRY(check_index(index));
  return card.write(row_base(index) + abi::kLinkEnable, enabled ? 1 : 0);
}

Result<std::uint64_t> read_counter(Card& card, std::uint32_t low_offset, std::uint32_t high_offset) {
  MILLRACE_ASSIGN(std::uint32_t high, card.read(high_offset));
  for (;;) {
    MILLRACE_ASSIGN(const std::uint32_t low, card.read(low_offset));
    MILLRACE_ASSIGN(const std::uint32_t again, card.read(high_offset));
    if (again == high) return (std::uint64_t{high} << 32U) | low;
    high = again;
  }
}

Result<LinkCounters> read_link(Card& card, std::uint32_t index) {
  MILLRACE_TRY(check_index(index));
  const std::uint32_t base = row_base(index);
  LinkCounters counters;
  MILLRACE_ASSIGN(const std::uint32_t status, card.read(base + abi::kLinkStatus));
  counters.cable_present = (status & 1U) != 0;
  counters.peer_in_service = (status & 2U) != 0;
  MILLRACE_ASSIGN(counters.packets,
                  read_counter(card, base + abi::kLinkPacketsLow, base + abi::kLinkPacketsHigh));
  MILLRACE_ASSIGN(counters.bytes, read_counter(card, base + abi::kLinkBytesLow, base + abi::kLinkBytesHigh));
  MILLRACE_ASSIGN(counters.stalls,
                  read_counter(card, base + abi::kLinkStallsLow, base + abi::kLinkStallsHigh));
  MILLRACE_ASSIGN(counters.repeats, card.read(base + abi::kLinkRepeats));
  MILLRACE_ASSIGN(counters.damaged, card.read(base + abi::kLinkDamaged));
  MILLRACE_ASSIGN(counters.dropped, card.read(base + abi::kLinkDropped));
  MILLRACE_ASSIGN(const std::uint32_t state, card.read(base + abi::kLinkState));
  counters.state = static_cast<abi::LinkState>(state);
  // A card without the register for the link's state reads 0. In this case, other values tell whether the link is up.
  if (state == 0 && counters.cable_present && counters.peer_in_service) counters.state = abi::LinkState::kUp;
  return counters;
}

}  // namespace millrace::runtime::card
