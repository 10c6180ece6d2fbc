#include "runtime/link/checksum.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace millrace::runtime::link {

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78u;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
// The CRC instruction takes three cycles, but a new one can start in each cycle. So long inputs are processed as three
// blocks at a time, whose CRCs are combined.
constexpr std::size_t kBlock = 256;

/// Maps each byte of a CRC to the CRC after kBlock bytes of zeros. A CRC register is linear in its four bytes.
constexpr std::array<std::array<std::uint32_t, 256>, 4> make_block_tables() {
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::uint32_t place = 0; place < 4; ++place) {
    std::array<std::uint32_t, 8> of_bit{};
    for (std::uint32_t bit = 0; bit < 8; ++bit) {
      std::uint32_t crc = 1u << (8 * place + bit);
      for (std::size_t i = 0; i < kBlock; ++i) crc = (crc >> 8) ^ kTable[crc & 0xffu];
      of_bit[bit] = crc;
    }
    for (std::uint32_t byte = 0; byte < 256; ++byte)
      for (std::uint32_t bit = 0; bit < 8; ++bit)
        if ((byte >> bit & 1u) != 0) tables[place][byte] ^= of_bit[bit];
  }
  return tables;
}

constexpr std::array<std::array<std::uint32_t, 256>, 4> kAfterBlock = make_block_tables();

std::uint64_t after_block(std::uint64_t crc) {
  return kAfterBlock[0][crc & 0xffu] ^ kAfterBlock[1][crc >> 8 & 0xffu] ^ kAfterBlock[2][crc >> 16 & 0xffu] ^
         kAfterBlock[3][crc >> 24 & 0xffu];
}

std::uint64_t word_at(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(std::span<const std::byte> bytes) {
  std::uint64_t crc = 0xffffffffu;
  while (bytes.size() >= 3 * kBlock) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < kBlock; i += 8) {
      crc = _mm_crc32_u64(crc, word_at(bytes.data() + i));
      second = _mm_crc32_u64(second, word_at(bytes.data() + kBlock + i));
      third = _mm_crc32_u64(third, word_at(bytes.data() + 2 * kBlock + i));
    }
    crc = after_block(after_block(crc) ^ second) ^ third;
    bytes = bytes.subspan(3 * kBlock);
  }
  while (bytes.size() >= 8) {
    crc = _mm_crc32_u64(crc, word_at(bytes.data()));
    bytes = bytes.subspan(8);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (const std::byte byte : bytes) rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(byte));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xffu];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

}  // namespace millrace::runtime::link
