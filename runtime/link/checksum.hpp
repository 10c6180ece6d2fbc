// CRC-32C (Castagnoli), the checksum of link datagrams: reflected, polynomial 0x82f63b78, begins with all ones, inverted
// at the end (RFC 3720, appendix B.4). Uses the processor's CRC instruction where it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::runtime::link {

/// Returns the CRC-32C of `bytes`. The CRC of no bytes is 0. Allocates nothing.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// Computes the same without the CRC instruction. For processors that lack the instruction, and for tests.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes);

}  // namespace millrace::runtime::link
