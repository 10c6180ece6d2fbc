// Tests emulated cards that are connected by UDP cables: frames over faulty networks, new epochs (which discard all
// frames), cut cables, and the loss of a card.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <limits>
#include <string>

#include "emulated_chain.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/plan/cluster.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_emulated_udp {
namespace {

using Faults = runtime::plan::CableFaults;
using std::chrono::milliseconds;

const runtime::plan::Cluster& cluster() {
  static const runtime::plan::Cluster made = [] {
    runtime::plan::Cluster udp = test_cluster();
    for (auto& cable : udp.cables) cable.protocol = runtime::plan::CableProtocol::kUdp;
    return udp;
  }();
  return made;
}

class Backend : public testing::Environment {
  void SetUp() override {
    const auto status = runtime::emulator::select_backend(cluster());
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

void impair(const std::string& cable, const Faults& faults) {
  const auto status = runtime::emulator::set_faults(cluster(), cable, faults);
  ASSERT_TRUE(status.ok()) << status.error().message();
}

/// Sets the faults of both cables of the chain. The destructor removes the faults.
class Faulty {
 public:
  explicit Faulty(const Faults& faults) { set(faults); }
  ~Faulty() { set({}); }
  Faulty(const Faulty&) = delete;
  Faulty& operator=(const Faulty&) = delete;

 private:
  static void set(const Faults& faults) {
    impair("0-1", faults);
    impair("1-2", faults);
  }
};

Faults cut() {
  Faults faults;
  faults.outage = true;
  return faults;
}

std::uint32_t state_of(Chain& chain, std::uint32_t card, std::uint32_t row) {
  return chain.controls[card]->link_register(row, abi::kLinkState);
}

TEST(EmulatedUdp, DeliversFramesInOrderWithSeveralInFlight) {
  Chain chain;
  chain.run(100, 1);
  for (const auto& [card, row] : {std::pair{0u, 0u}, {1u, kRowIn}, {1u, kRowOut}, {2u, 0u}}) {
    EXPECT_EQ(chain.controls[card]->link_register(row, abi::kLinkStatus), 3u)
        << "cable there, peer in service";
    EXPECT_GE(state_of(chain, card, row), static_cast<std::uint32_t>(abi::LinkState::kUp));
    EXPECT_EQ(chain.controls[card]->link_register(row, abi::kLinkBytesLow), 100 * kElements);
  }
}

TEST(EmulatedUdp, TransfersTheSameFramesInPacketsOfEverySize) {
  for (const auto& [packet, credits] :
       {std::pair{250u, 1u}, {7u, 30u}, {kElements, 4u}, {65'443u, 8u}, {100u, 300u}}) {
    SCOPED_TRACE("packets of " + std::to_string(packet) + " bytes, " + std::to_string(credits) + " credits");
    Chain chain(packet, credits);
    chain.run(10, packet);
  }
}

TEST(EmulatedUdp, DeliversEveryFrameOverAFaultyNetwork) {
  Chain chain(kSmallPacket, 24);
  chain.run(1, 1);
  Faults faults;
  faults.loss = faults.reorder = faults.duplicate = 0.01;
  faults.bit_errors = 1e-5;
  const Faulty faulty(faults);
  std::uint32_t rounds = 0;
  const auto repaired = [&] {
    return chain.controls[0]->link_register(0, abi::kLinkRepeats) > 0 &&
           chain.controls[2]->link_register(0, abi::kLinkDamaged) > 0;
  };
  while (!repaired() && rounds < 100) {
    chain.raise_epoch();
    chain.run(100, ++rounds);
  }
  EXPECT_TRUE(repaired());
}

TEST(EmulatedUdp, DropsFramesInFlightWhenANewEpochStarts) {
  for (const std::uint32_t credits : {kFewCredits, 40u}) {
    SCOPED_TRACE(std::to_string(credits) + " credits");
    Chain chain(kSmallPacket, credits);
    for (std::uint32_t round = 0; round < 10; ++round) {
      for (std::uint32_t n = 0; n < Chain::kSlots; ++n)
        chain.in[n]->start(random_frame(kElements, 1000 + n), chain.epoch, n);
      EXPECT_EQ(chain.in[2]->wait(), ERT_CMD_STATE_COMPLETED);
      chain.raise_epoch();
      for (auto& ingress : chain.in) EXPECT_EQ(ingress->wait(), ERT_CMD_STATE_COMPLETED);
      chain.run(3, round);
    }
  }
}

TEST(EmulatedUdp, ReportsACutCableAndRecoversWhenItIsBack) {
  Chain chain;
  chain.run(5, 1);
  Supervisor supervisor(0, chain.images[0]);
  supervisor.start();
  impair("0-1", cut());
  chain.in[0]->start(random_frame(kElements, 1), chain.epoch, 5);
  ASSERT_EQ(supervisor.wait(), ERT_CMD_STATE_COMPLETED);
  const auto report = supervisor.report();
  EXPECT_EQ(report.code, abi::FaultCode::kLinkDown) << report.detail;
  EXPECT_EQ(report.link_index, 0u);
  EXPECT_EQ(state_of(chain, 0, 0), static_cast<std::uint32_t>(abi::LinkState::kLost));
  EXPECT_EQ(chain.controls[0]->link_register(0, abi::kLinkStatus), 1u) << "cable there, peer does not answer";
  impair("0-1", {});
  chain.raise_epoch();
  EXPECT_EQ(chain.in[0]->wait(), ERT_CMD_STATE_COMPLETED);
  chain.run(20, 2);
  EXPECT_EQ(chain.controls[0]->link_register(0, abi::kLinkStatus), 3u);
}

TEST(EmulatedUdp, ReportsAFailedCableSocketAndOpensTheSocketAgain) {
  Chain chain;
  chain.run(2, 1);
  Supervisor supervisor(0, chain.images[0]);
  supervisor.start();
  const auto process = card_process("fpga0");
  ASSERT_GT(process, 0);
  // The test has lowered the limit on file descriptors so far that poll() refuses to wait for the cable's
  // socket and timer.
  rlimit before{};
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit low{1, before.rlim_max};
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, &low, nullptr), 0);
  ASSERT_EQ(supervisor.wait(), ERT_CMD_STATE_COMPLETED);
  ASSERT_EQ(prlimit(process, RLIMIT_NOFILE, &before, nullptr), 0);
  const auto report = supervisor.report();
  EXPECT_EQ(report.code, abi::FaultCode::kLinkDown);
  EXPECT_EQ(report.link_index, 0u);
  EXPECT_STREQ(report.detail, "cannot serve the cable: poll: Invalid argument");
  chain.controls[0]->enable(0);
  chain.raise_epoch();
  chain.run(10, 2);
}

TEST(EmulatedUdp, ReportsALinkWhoseEndsHaveDifferentPacketSizes) {
  Chain chain;
  Supervisor supervisor(2, chain.images[2]);
  supervisor.start();
  chain.controls[2]->enable(0, false);
  chain.controls[2]->link(0, 0, 5, kSmallPacket + 1, kFewCredits);
  chain.controls[2]->enable(0);
  ASSERT_EQ(supervisor.wait(), ERT_CMD_STATE_COMPLETED);
  const auto report = supervisor.report();
  EXPECT_EQ(report.code, abi::FaultCode::kProtocol);
  EXPECT_NE(std::string(report.detail).find("packet size"), std::string::npos) << report.detail;
}

TEST(EmulatedUdp, DeliversNoWrongFrameWhenCardsAreKilled) {
  Chain chain;
  for (std::uint32_t round = 0; round < 5; ++round) {
    for (std::uint32_t n = 0; n < Chain::kSlots; ++n) {
      chain.out[n]->start(chain.epoch, n);
      chain.in[n]->start(random_frame(kElements, n), chain.epoch, n);
    }
    const auto process = card_process("fpga1");
    ASSERT_GT(process, 0);
    ASSERT_EQ(kill(process, SIGKILL), 0);
    ASSERT_TRUE(await_end(process));
    chain.load_middle();
    chain.bind_middle();
    chain.raise_epoch();
    for (std::uint32_t n = 0; n < Chain::kSlots; ++n) {
      ASSERT_EQ(chain.out[n]->wait(), ERT_CMD_STATE_COMPLETED);
      if (chain.out[n]->trailer().status == abi::FrameStatus::kOk) {
        EXPECT_EQ(chain.out[n]->frame(), chain.expected(random_frame(kElements, n)));
      }
      ASSERT_EQ(chain.in[n]->wait(), ERT_CMD_STATE_COMPLETED);
    }
    chain.run(4, round);
  }
}

TEST(EmulatedUdp, RefusesInvalidNetworkFaultsAndFaultsOnUnknownCables) {
  const auto refused = [](const std::string& cable, const Faults& faults) {
    const auto status = runtime::emulator::set_faults(cluster(), cable, faults);
    return status.ok() ? std::string() : status.error().message();
  };
  EXPECT_NE(refused("2-3", {}).find("has no cable '2-3'"), std::string::npos);
  Faults wrong;
  wrong.loss = 1.5;
  EXPECT_NE(refused("0-1", wrong).find("loss: must be a probability"), std::string::npos);
  wrong = {};
  wrong.latency_ns = std::numeric_limits<double>::infinity();
  EXPECT_NE(refused("0-1", wrong).find("latency_ns: must be 0 to 1e10"), std::string::npos);
}

}  // namespace
}  // namespace millrace::tests::test_emulated_udp
