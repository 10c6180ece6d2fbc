// Packs the elements of a tensor for a link between cards: `bits` bits each, the first element in the lowest bits of
// the first byte, no padding between elements, and zero bits at the end of the last byte. With 8, 16 or 32 bits,
// packing is a plain copy. The bipolar value -1 is the bit 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/program/program.hpp"

namespace millrace::kernels {

std::uint64_t packed_bytes(ElementType type, std::uint64_t elements);

/// Convert elements between memory and a link. `storage` holds elements as program.hpp stores them. `wire` has
/// packed_bytes() bytes.
void pack(ElementType type, std::span<const std::byte> storage, std::span<std::byte> wire);
void unpack(ElementType type, std::span<const std::byte> wire, std::span<std::byte> storage);

}  // namespace millrace::kernels
