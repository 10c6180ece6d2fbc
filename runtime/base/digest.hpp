// SHA-256, which identifies FPGA images, weights, programs and deployments by their content.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// Computes a SHA-256 digest of bytes that arrive in several parts. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);

  /// Returns the digest of all bytes added so far. No other call may follow.
  std::array<std::byte, 32> finish();

 private:
  void* context_;
};

/// Returns the SHA-256 digest as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
std::string to_hex(std::span<const std::byte> bytes);

/// Whether the text has the form of a digest that sha256_hex() returns.
bool is_sha256_hex(std::string_view text);

}  // namespace millrace
