// The secrets clients and server share, and the tags made with them: HMAC-SHA256 (RFC 2104), first 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/udp/wire/header.hpp"

namespace millrace::server::udp::wire {

/// Constant once its keys are added; then any thread. Copies share the keys.
class KeyRing {
 public:
  /// kInvalidInput for id 0, an id given twice, and secrets shorter than 16 or longer than 1,024 bytes.
  Status add(std::uint8_t id, std::span<const std::byte> secret);

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  bool has(std::uint8_t id) const { return keys_.contains(id); }

  /// Whether both hold the same secrets under the same ids.
  bool same_keys(const KeyRing& other) const;

  /// The tag over the 40 header bytes and the payload. The key must be there.
  void sign(std::uint8_t id, std::span<const std::byte> head, std::span<const std::byte> payload,
            std::span<std::byte, kTagBytes> tag) const;

  /// True if the datagram's key is known and its tag is right. Compares in constant time.
  bool verify(const Datagram& datagram) const;

 private:
  class Key;
  std::map<std::uint8_t, std::shared_ptr<Key>> keys_;
};

/// A key and its line in the file, counted from 1.
struct SecretKey {
  std::uint8_t id = 0;
  std::vector<std::byte> secret;
  std::size_t line = 0;
};

/// Each line holds one key, "<id> <hexadecimal secret>". Empty lines and lines that start with '#' are
/// skipped. Errors name the line, never the secret. Only parse_keys() also checks what KeyRing::add() checks.
Result<std::vector<SecretKey>> parse_secret_keys(std::string_view text);
Result<KeyRing> parse_keys(std::string_view text);

/// Cryptographically random bytes.
void random_bytes(std::span<std::byte> out);

}  // namespace millrace::server::udp::wire
