// Tests which connections count as one client. The server answers waiting clients in turn.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <string>

#include "server/http/connection/peer.hpp"

namespace millrace::server::http::test_client_key {
namespace {

constexpr std::uint64_t kOtherwise = 42;

std::uint64_t key(const std::string& address, std::uint16_t port = 1234) {
  sockaddr_storage storage{};
  if (address.find(':') == std::string::npos) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, address.c_str(), &v4.sin_addr), 1) << address;
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr), 1) << address;
  }
  return client_key(reinterpret_cast<const sockaddr&>(storage), kOtherwise);
}

TEST(ClientKey, IsTheSameForAllConnectionsOfOneMachine) {
  const struct {
    const char *one, *other;
    bool same;
  } kCases[] = {
      {"192.0.2.1", "192.0.2.1", true},
      {"192.0.2.1", "192.0.2.2", false},
      {"::ffff:192.0.2.1", "::ffff:192.0.2.1", true},
      {"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
      {"::ffff:192.0.2.1", "192.0.2.1", true},
      {"2001:db8:1:2::1", "2001:db8:1:2:aaaa:bbbb:cccc:dddd", true},
      {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
      {"2001:db8::1", "192.0.2.1", false},
      {"fe80::1", "fe80::2", true},
  };
  for (const auto& one : kCases) {
    EXPECT_EQ(key(one.one, 1) == key(one.other, 2), one.same) << one.one << " and " << one.other;
    EXPECT_NE(key(one.one), kOtherwise) << one.one;
  }
}

TEST(ClientKey, OfALocalConnectionIsTheFallbackThatTheCallerPasses) {
  for (const char* const local : {"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "::ffff:127.9.9.9"})
    EXPECT_EQ(key(local), kOtherwise) << local;
  sockaddr_un local{};
  local.sun_family = AF_UNIX;
  EXPECT_EQ(client_key(reinterpret_cast<const sockaddr&>(local), kOtherwise), kOtherwise);
}

}  // namespace
}  // namespace millrace::server::http::test_client_key
