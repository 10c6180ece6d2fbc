#include "runtime/base/digest.hpp"

#include <openssl/evp.h>

#include <cassert>
#include <new>

namespace millrace {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr ||
      EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
}

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size());
  return *this;
}

Sha256& Sha256::update(std::string_view text) {
  return update(std::as_bytes(std::span(text.data(), text.size())));
}

std::array<std::byte, 32> Sha256::finish() {
  std::array<std::byte, 32> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), reinterpret_cast<unsigned char*>(digest.data()),
                     &length);
  assert(length == digest.size());
  return digest;
}

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4U];
    text += kDigits[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  return to_hex(Sha256().update(bytes).finish());
}
std::string sha256_hex(std::string_view text) {
  return to_hex(Sha256().update(text).finish());
}

}  // namespace millrace
