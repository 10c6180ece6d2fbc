#include "server/udp/cookies.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp {

CookieMint::CookieMint(std::chrono::nanoseconds period) : period_(period) {
  std::array<std::byte, 32> secret;
  wire::random_bytes(secret);
  [[maybe_unused]] const Status added = secret_.add(1, secret);
  assert(added.ok());
}

wire::Cookie CookieMint::at(const Address& address, std::uint64_t client_id, std::uint64_t period) const {
  std::array<std::byte, 40> said{};
  std::copy(address.ip.begin(), address.ip.end(), said.begin());
  wire::store<std::uint32_t>(said, 16, address.scope);
  wire::store<std::uint16_t>(said, 20, address.port);
  wire::store<std::uint8_t>(said, 22, address.v6 ? 1 : 0);
  wire::store<std::uint64_t>(said, 24, client_id);
  wire::store<std::uint64_t>(said, 32, period);
  wire::Cookie cookie;
  secret_.sign(1, said, {}, cookie);
  return cookie;
}

wire::Cookie CookieMint::make(const Address& address, std::uint64_t client_id, Clock::time_point now) const {
  return at(address, client_id, period_of(now));
}

bool CookieMint::check(const wire::Cookie& cookie, const Address& address, std::uint64_t client_id,
                       Clock::time_point now) const {
  const std::uint64_t period = period_of(now);
  for (std::uint64_t back = 0; back < 2 && back <= period; ++back) {
    const wire::Cookie right = at(address, client_id, period - back);
    if (CRYPTO_memcmp(right.data(), cookie.data(), right.size()) == 0) return true;
  }
  return false;
}

}  // namespace millrace::server::udp
