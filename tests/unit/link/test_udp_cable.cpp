#include "runtime/link/udp_cable.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstring>

namespace millrace::runtime::link::test_udp_cable {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kLoopback = 0x7f000001;

/// Two ends of a cable on loopback, both served by the test's thread.
struct Pair {
  std::unique_ptr<UdpCable> near = std::move(*UdpCable::open({kLoopback, 0}, 1, 2, 11));
  std::unique_ptr<UdpCable> far = std::move(*UdpCable::open({kLoopback, 0}, 2, 1, 12));
  Sender& sender = near->end().add_sender(0, 4096, 16, {});
  Receiver& receiver = far->end().add_receiver(0, 4096, 16, {});

  Pair() {
    near->set_peer(far->address());
    far->set_peer(near->address());
    receiver.start(1, 0);
    sender.start(1, 0, Clock::now());
  }

  /// Serves both ends until `done` returns true, for at most 30 s. Returns whether `done` returned true.
  template <class Done>
  bool serve(Done done) {
    const Time end = Clock::now() + 30s;
    while (!done()) {
      const Time now = Clock::now();
      if (now > end) return false;
      near->send(now);
      far->send(now);
      pollfd files[] = {{near->descriptor(), POLLIN, 0}, {far->descriptor(), POLLIN, 0}};
      const auto wait = std::min(std::min(near->next_time(), far->next_time()), now + 10ms) - now;
      const auto bound = std::max<std::chrono::nanoseconds>(wait, 0ns);
      const timespec limit{0, static_cast<long>(bound.count())};
      ppoll(files, 2, &limit, nullptr);
      near->receive(Clock::now());
      far->receive(Clock::now());
    }
    return true;
  }

  /// Sends `count` packets, and checks that they arrive in order and unchanged.
  void transfer(std::uint32_t count) {
    std::uint32_t sent = 0, taken = 0;
    std::vector<std::byte> payload(4096);
    EXPECT_TRUE(serve([&] {
      for (; sent < count && sender.credit() > 0; ++sent) {
        std::fill(payload.begin(), payload.end(), static_cast<std::byte>(sent * 7));
        EXPECT_TRUE(sender.push(sent, 0, true, payload));
      }
      Packet packet;
      for (; receiver.peek(packet); ++taken, receiver.take()) {
        EXPECT_EQ(packet.sequence, taken);
        EXPECT_EQ(packet.payload.size(), payload.size());
        EXPECT_TRUE(std::all_of(packet.payload.begin(), packet.payload.end(),
                                [&](std::byte byte) { return byte == static_cast<std::byte>(taken * 7); }));
      }
      return taken == count;
    }));
  }
};

}  // namespace

TEST(UdpCable, CarriesPacketsOverLoopback) {
  Pair pair;
  pair.transfer(2000);
}

TEST(UdpCable, CarriesPacketsOverAFaultyNetwork) {
  Pair pair;
  Impairment faults;
  faults.loss = faults.duplicate = faults.reorder = 0.05;
  faults.bit_errors = 1e-6;
  pair.near->impairer().set(faults, Clock::now());
  pair.far->impairer().set(faults, Clock::now());
  pair.transfer(1000);
  EXPECT_GT(pair.sender.counters().repeats, 0u);
  EXPECT_GT(pair.far->end().drops().damaged, 0u);
}

TEST(UdpCable, DropsDatagramsFromOtherAddresses) {
  Pair pair;
  const auto stranger = std::move(*UdpCable::open({kLoopback, 0}, 1, 2));
  stranger->set_peer(pair.far->address());
  Sender& sender = stranger->end().add_sender(0, 4096, 16, {});
  sender.start(9, 0, Clock::now());
  EXPECT_TRUE(pair.serve([&] {
    stranger->send(Clock::now());
    return pair.far->end().drops().address > 3;
  }));
  EXPECT_EQ(sender.state(Clock::now()), LinkState::kTraining);
}

TEST(UdpCable, ErrorNamesAnAddressThatCannotBeOpened) {
  const auto first = std::move(*UdpCable::open({kLoopback, 0}, 1, 2));
  const auto second = UdpCable::open(first->address(), 1, 2);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(second.error().message().find(to_string(first->address())), std::string::npos);
}

TEST(UdpCable, ParsesAndPrintsAddresses) {
  const auto address = parse_socket_address("10.1.2.3:5000");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(*address, (SocketAddress{0x0a010203, 5000}));
  EXPECT_EQ(to_string(*address), "10.1.2.3:5000");
  for (const char* const wrong :
       {"", "10.1.2.3", "10.1.2:5", "10.1.2.3:", "10.1.2.3:65536", "a:1", "10.1.2.3:1x"})
    EXPECT_FALSE(parse_socket_address(wrong).ok()) << wrong;
}

}  // namespace millrace::runtime::link::test_udp_cable
