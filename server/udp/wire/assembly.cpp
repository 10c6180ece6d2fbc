#include "server/udp/wire/assembly.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace millrace::server::udp::wire {

void Assembly::start(const Layout& layout, std::span<std::byte> into) {
  assert(into.size() == layout.total);
  layout_ = layout;
  into_ = into;
  // Most messages need only one word of the map of fragments, and that word is already allocated.
  if (layout.count <= 64 && map_.size() == 1)
    map_[0] = 0;
  else
    map_.assign((layout.count + 63U) / 64U, 0);
  received_ = 0;
  first_missing_ = 0;
  asked_ = std::min<std::uint32_t>(layout.count, kBurst);
}

Assembly::Outcome Assembly::add(const Layout& layout, std::uint32_t index,
                                std::span<const std::byte> payload) {
  // The layout was derived from the payload's length (layout_of()), so a payload with an equal layout fits.
  if (layout != layout_ || index >= layout_.count || payload.size() != layout_.length(index))
    return Outcome::kConflict;
  std::byte* const to = into_.data() + layout_.offset(index);
  if (has(index))
    return std::memcmp(to, payload.data(), payload.size()) == 0 ? Outcome::kDuplicate : Outcome::kConflict;
  std::memcpy(to, payload.data(), payload.size());
  map_[index / 64] |= std::uint64_t{1} << (index % 64);
  ++received_;
  while (first_missing_ < layout_.count && has(first_missing_)) ++first_missing_;
  return complete() ? Outcome::kComplete : Outcome::kAdded;
}

bool Assembly::ask(Nack& nack) {
  if (complete()) return false;
  if (first_missing_ >= asked_) asked_ = std::min<std::uint32_t>(layout_.count, first_missing_ + kBurst);
  nack = Nack{};
  nack.base = static_cast<std::uint16_t>(first_missing_);
  const std::uint32_t end =
      std::min<std::uint32_t>(asked_, first_missing_ + static_cast<std::uint32_t>(kMaxNackBits));
  std::uint32_t wanted = 0;
  for (std::uint32_t i = first_missing_; i < end && wanted < kBurst; ++i) {
    if (has(i)) continue;
    nack.want(i - first_missing_);
    nack.bits = static_cast<std::uint16_t>(i - first_missing_ + 1);
    ++wanted;
  }
  return true;
}

}  // namespace millrace::server::udp::wire
