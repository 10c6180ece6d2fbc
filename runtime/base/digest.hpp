// SHA-256, the identity of everything content-addressed: images, weights, programs, deployments.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// Incremental SHA-256. Not thread-safe; cheap to copy never (owns an OpenSSL context).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);

  /// The digest of all that was given; ends the computation.
  std::array<std::byte, 32> finish();

 private:
  void* context_;
};

/// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace millrace
