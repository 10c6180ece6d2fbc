// The secrets that clients and server share, and the tags made with them: the first 16 bytes of HMAC-SHA256 (RFC
// 2104).
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

/// Shared secrets by key id. Once all keys are added, any thread may use the ring. Copies share the keys.
class KeyRing {
 public:
  /// Adds a key. Returns kInvalidInput for the id 0, for an id that was added before, and for a secret that does not
  /// have 16 to 1,024 bytes.
  Status add(std::uint8_t id, std::span<const std::byte> secret);

  bool empty() const { return keys_.empty(); }
  std::size_t size() const { return keys_.size(); }
  bool has(std::uint8_t id) const { return keys_.contains(id); }

  /// Whether both key rings hold the same secrets under the same ids.
  bool same_keys(const KeyRing& other) const;

  /// Computes the tag over the 40 bytes of the header and the payload. The ring must contain the key `id`.
  void sign(std::uint8_t id, std::span<const std::byte> head, std::span<const std::byte> payload,
            std::span<std::byte, kTagBytes> tag) const;

  /// Returns true if the datagram's key is known and its tag is right. Compares tags in constant time.
  bool verify(const Datagram& datagram) const;

 private:
  class Key;
  std::map<std::uint8_t, std::shared_ptr<Key>> keys_;
};

/// A secret key, and its line number in the key file, counted from 1.
struct SecretKey {
  std::uint8_t id = 0;
  std::vector<std::byte> secret;
  std::size_t line = 0;
};

/// Parse a key file. Each line holds one key, "<id> <hexadecimal secret>". Empty lines and lines that start with '#'
/// are skipped. Errors name the line, never the secret. Only parse_keys() makes the checks of KeyRing::add().
Result<std::vector<SecretKey>> parse_secret_keys(std::string_view text);
Result<KeyRing> parse_keys(std::string_view text);

/// Fills `out` with cryptographically random bytes.
void random_bytes(std::span<std::byte> out);

}  // namespace millrace::server::udp::wire
