// One beat of a simulated stream: a bit vector of any width, with lane 0 in the lowest bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::kernels::tb {

class Beat {
 public:
  Beat() = default;
  explicit Beat(unsigned bits) : bits_(bits), words_((bits + 31) / 32) {}

  unsigned bits() const { return bits_; }
  const std::vector<std::uint32_t>& words() const { return words_; }
  std::vector<std::uint32_t>& words() { return words_; }

  /// Return `width` (at most 64) bits from bit `low` on, zero-extended or sign-extended. Bits beyond the beat's end
  /// read as zero.
  std::uint64_t get(unsigned low, unsigned width) const;
  std::int64_t get_signed(unsigned low, unsigned width) const;
  /// Stores the low `width` bits of `value` from bit `low` on. Bits beyond the beat's end are lost.
  void set(unsigned low, unsigned width, std::uint64_t value);
  void place(unsigned low, const Beat& source);
  Beat slice(unsigned low, unsigned width) const;

  std::string hex() const;  // most significant digit first, as $readmemh reads it
  bool operator==(const Beat&) const = default;

 private:
  unsigned bits_ = 0;
  std::vector<std::uint32_t> words_;
};

using Beats = std::vector<Beat>;

/// Packs values in stream order into beats of `lanes` lanes of `bits` bits each. The number of values must be a
/// multiple of `lanes`.
Beats to_beats(const std::vector<std::int64_t>& values, unsigned lanes, unsigned bits);

/// Writes one line of hexadecimal digits per beat, as in the file that initialises a memory for weights or parameters.
void write_hex(const std::string& path, const Beats& lines);

}  // namespace millrace::kernels::tb
