#include "server/udp/wire/keys.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace millrace::server::udp::wire {
namespace {

struct FreeMac {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MAC_CTX, FreeMac>;

const unsigned char* data(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

bool parse_hex(const std::string& text, std::vector<std::byte>& out) {
  out.resize(text.size() / 2);
  std::size_t bytes = 0;
  return OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(out.data()), out.size(), &bytes, text.c_str(),
                               '\0') == 1 &&
         2 * bytes == text.size();
}

}  // namespace

/// One shared secret. Keeps initialised HMAC contexts, so that making a tag costs only the hashing.
class KeyRing::Key {
 public:
  explicit Key(std::span<const std::byte> secret) {
    const std::unique_ptr<EVP_MAC, FreeMac> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
    if (mac) keyed_.reset(EVP_MAC_CTX_new(mac.get()));
    char digest[] = "SHA256";
    const std::array<OSSL_PARAM, 2> parameters{
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0), OSSL_PARAM_construct_end()};
    if (!keyed_ || EVP_MAC_init(keyed_.get(), data(secret), secret.size(), parameters.data()) != 1)
      throw std::bad_alloc();
  }

  void sign(std::span<const std::byte> head, std::span<const std::byte> payload,
            std::span<std::byte, kTagBytes> tag) {
    Context context = take();
    std::array<unsigned char, 32> digest{};
    std::size_t length = 0;
    // If the HMAC context is initialised without a key, it uses its previous key again.
    if (EVP_MAC_init(context.get(), nullptr, 0, nullptr) != 1 ||
        EVP_MAC_update(context.get(), data(head), head.size()) != 1 ||
        EVP_MAC_update(context.get(), data(payload), payload.size()) != 1 ||
        EVP_MAC_final(context.get(), digest.data(), &length, digest.size()) != 1)
      throw std::bad_alloc();
    std::memcpy(tag.data(), digest.data(), tag.size());
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(context));
  }

 private:
  Context take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Context context = std::move(free_.back());
        free_.pop_back();
        return context;
      }
    }
    Context context(EVP_MAC_CTX_dup(keyed_.get()));
    if (!context) throw std::bad_alloc();
    return context;
  }

  Context keyed_;  // constant after construction
  std::mutex mutex_;
  std::vector<Context> free_;  // protected by mutex_
};

Status KeyRing::add(std::uint8_t id, std::span<const std::byte> secret) {
  const std::string name = "key " + std::to_string(id);
  if (id == 0) return Error(ErrorCode::kInvalidInput, "key id 0 means 'no tag': use ids 1 to 255");
  if (has(id)) return Error(ErrorCode::kInvalidInput, name + " is given twice");
  if (secret.size() < 16 || secret.size() > 1024)
    return Error(ErrorCode::kInvalidInput,
                 name + " has " + std::to_string(secret.size()) + " bytes; 16 to 1024 are needed");
  keys_[id] = std::make_shared<Key>(secret);
  return {};
}

bool KeyRing::same_keys(const KeyRing& other) const {
  // A key ring does not store its secrets. So sign the same message with both rings' keys, and compare the tags.
  return std::equal(keys_.begin(), keys_.end(), other.keys_.begin(), other.keys_.end(),
                    [](const auto& mine, const auto& theirs) {
                      std::array<std::byte, kTagBytes> tag, other_tag;
                      mine.second->sign({}, {}, tag);
                      theirs.second->sign({}, {}, other_tag);
                      return mine.first == theirs.first && tag == other_tag;
                    });
}

void KeyRing::sign(std::uint8_t id, std::span<const std::byte> head, std::span<const std::byte> payload,
                   std::span<std::byte, kTagBytes> tag) const {
  assert(has(id));
  keys_.at(id)->sign(head, payload, tag);
}

bool KeyRing::verify(const Datagram& datagram) const {
  if (!datagram.header.tagged() || !has(datagram.header.key_id)) return false;
  std::array<std::byte, kTagBytes> right;
  sign(datagram.header.key_id, datagram.head, datagram.payload, right);
  return CRYPTO_memcmp(right.data(), datagram.tag.data(), right.size()) == 0;
}

Result<std::vector<SecretKey>> parse_secret_keys(std::string_view text) {
  std::vector<SecretKey> keys;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::string where = "line " + std::to_string(number);
    const std::size_t space = line.find(' ');
    unsigned id = 0;
    std::vector<std::byte> secret;
    const auto parsed = std::from_chars(line.data(), line.data() + std::min(space, line.size()), id);
    if (space == std::string_view::npos || parsed.ec != std::errc() || parsed.ptr != line.data() + space ||
        id > 255 || !parse_hex(std::string(line.substr(space + 1)), secret))
      return Error(ErrorCode::kInvalidInput, where + ": expected '<id 1 to 255> <hexadecimal secret>'");
    keys.push_back({static_cast<std::uint8_t>(id), std::move(secret), number});
  }
  return keys;
}

Result<KeyRing> parse_keys(std::string_view text) {
  MILLRACE_ASSIGN(const std::vector<SecretKey> keys, parse_secret_keys(text));
  KeyRing ring;
  for (const SecretKey& key : keys)
    if (Status added = ring.add(key.id, key.secret); !added)
      return added.error().within("line " + std::to_string(key.line));
  return ring;
}

void random_bytes(std::span<std::byte> out) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) != 1)
    throw std::bad_alloc();
}

}  // namespace millrace::server::udp::wire
