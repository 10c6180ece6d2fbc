// Cookies prove that a client receives datagrams at its address. The server keeps no state for them.
#pragma once

#include <chrono>

#include "server/udp/request.hpp"
#include "server/udp/wire/keys.hpp"
#include "server/udp/wire/messages.hpp"

namespace millrace::server::udp {

class CookieMint {
 public:
  /// A cookie is valid for one to two periods. Every CookieMint has a new secret.
  explicit CookieMint(std::chrono::nanoseconds period);

  wire::Cookie make(const Address& address, std::uint64_t client_id, Clock::time_point now) const;
  bool check(const wire::Cookie& cookie, const Address& address, std::uint64_t client_id,
             Clock::time_point now) const;

  std::chrono::nanoseconds longest_life() const { return 2 * period_; }

 private:
  wire::Cookie at(const Address& address, std::uint64_t client_id, std::uint64_t period) const;
  std::uint64_t period_of(Clock::time_point now) const {
    return static_cast<std::uint64_t>(now.time_since_epoch() / period_);
  }

  const std::chrono::nanoseconds period_;
  wire::KeyRing secret_;
};

}  // namespace millrace::server::udp
