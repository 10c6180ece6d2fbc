#include "kernels/program/packing.hpp"

#include <cassert>
#include <cstring>

namespace millrace::kernels {
namespace {

// Elements that fill their storage travel as they are. Others, such as 17 to 24 bits in four bytes, are
// packed.
bool is_plain_copy(ElementType type) {
  return type.bits == type.storage_bytes() * 8U;
}

std::uint32_t load(const std::byte* from, std::size_t bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

void store(std::byte* to, std::uint32_t value, std::size_t bytes) {
  std::memcpy(to, &value, bytes);
}

std::uint32_t low_bits(std::uint32_t bits) {
  return bits == 32 ? ~0U : (1U << bits) - 1U;
}

std::uint32_t widen(ElementType type, std::uint32_t field) {
  if (type.kind == ElementType::Kind::kBipolar) return field != 0 ? 1U : ~0U;
  if (type.kind == ElementType::Kind::kSigned && (field >> (type.bits - 1U) & 1U) != 0)
    return field | ~low_bits(type.bits);
  return field;
}

}  // namespace

std::uint64_t packed_bytes(ElementType type, std::uint64_t elements) {
  // elements * bits / 8, rounded up, computed without a product that could overflow.
  return elements / 8 * type.bits + (elements % 8 * type.bits + 7) / 8;
}

void pack(ElementType type, std::span<const std::byte> storage, std::span<std::byte> wire) {
  const std::size_t width = type.storage_bytes();
  const std::size_t elements = storage.size() / width;
  assert(wire.size() >= packed_bytes(type, elements));
  if (is_plain_copy(type)) {
    if (!storage.empty()) std::memcpy(wire.data(), storage.data(), storage.size());
    return;
  }
  std::uint64_t waiting = 0;
  std::uint32_t waiting_bits = 0;
  std::byte* out = wire.data();
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint32_t field = load(storage.data() + i * width, width);
    if (type.kind == ElementType::Kind::kBipolar) field = field == 1U ? 1U : 0U;
    waiting |= std::uint64_t{field & low_bits(type.bits)} << waiting_bits;
    for (waiting_bits += type.bits; waiting_bits >= 8; waiting_bits -= 8, waiting >>= 8) {
      *out++ = static_cast<std::byte>(waiting);
    }
  }
  if (waiting_bits > 0) *out = static_cast<std::byte>(waiting);
}

void unpack(ElementType type, std::span<const std::byte> wire, std::span<std::byte> storage) {
  const std::size_t width = type.storage_bytes();
  const std::size_t elements = storage.size() / width;
  assert(wire.size() >= packed_bytes(type, elements));
  if (is_plain_copy(type)) {
    if (!storage.empty()) std::memcpy(storage.data(), wire.data(), storage.size());
    return;
  }
  std::uint64_t waiting = 0;
  std::uint32_t waiting_bits = 0;
  const std::byte* in = wire.data();
  for (std::size_t i = 0; i < elements; ++i) {
    for (; waiting_bits < type.bits; waiting_bits += 8) {
      waiting |= std::to_integer<std::uint64_t>(*in++) << waiting_bits;
    }
    const auto field = static_cast<std::uint32_t>(waiting) & low_bits(type.bits);
    store(storage.data() + i * width, widen(type, field), width);
    waiting >>= type.bits;
    waiting_bits -= type.bits;
  }
}

}  // namespace millrace::kernels
