// Loads and stores little-endian integers, and structs without padding, in spans of bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace millrace::server::udp::wire {

static_assert(std::endian::native == std::endian::little);

/// Loads a value from `bytes`. The bytes `offset` to `offset + sizeof(T)` must lie within the span.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void store(std::span<std::byte> bytes, std::size_t offset, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace millrace::server::udp::wire
