// Copies parts of frames, in the packed form of kernels/program/packing.hpp, to and from a port's data bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace millrace::runtime::rtl {

/// Copies `count` bits of `from`, starting at bit `at`, to the start of `to`. Unused bits of the last byte
/// become zero.
inline void copy_bits_out(const std::byte* from, std::uint64_t at, std::uint64_t count, std::uint8_t* to) {
  const std::uint64_t bytes = (count + 7) / 8, first = at / 8;
  const unsigned shift = at % 8;
  if (shift == 0) {
    std::memcpy(to, from + first, bytes);
  } else {
    const std::uint64_t last = (at + count - 1) / 8;
    for (std::uint64_t i = 0; i < bytes; ++i) {
      const unsigned low = std::to_integer<unsigned>(from[first + i]) >> shift;
      const unsigned high =
          first + i + 1 > last ? 0U : std::to_integer<unsigned>(from[first + i + 1]) << (8 - shift);
      to[i] = static_cast<std::uint8_t>(low | high);
    }
  }
  if (count % 8 != 0) to[bytes - 1] = static_cast<std::uint8_t>(to[bytes - 1] & ((1U << (count % 8)) - 1U));
}

/// Copies the first `count` bits of `from` to bit `at` of `to`. The bits of `to` from `at` on and the unused
/// bits of the last byte of `from` must be zero.
inline void copy_bits_in(const std::uint8_t* from, std::uint64_t count, std::byte* to, std::uint64_t at) {
  const std::uint64_t bytes = (count + 7) / 8, first = at / 8, last = (at + count - 1) / 8;
  const unsigned shift = at % 8;
  if (shift == 0) {
    std::memcpy(to + first, from, bytes);
    return;
  }
  for (std::uint64_t i = 0; i < bytes; ++i) {
    const unsigned value = static_cast<unsigned>(from[i]) << shift;
    to[first + i] |= static_cast<std::byte>(value & 0xffU);
    if (first + i + 1 <= last) to[first + i + 1] = static_cast<std::byte>(value >> 8U);
  }
}

}  // namespace millrace::runtime::rtl
