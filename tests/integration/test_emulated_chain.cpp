// Tests emulated cards that are connected by cables: channels between partitions, back-pressure, new epochs (which
// discard all frames), and the loss of a card.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <memory>
#include <random>
#include <thread>

#include "emulated_chain.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_emulated_chain {
namespace {

namespace plan = runtime::plan;
using std::chrono::milliseconds;

class Backend : public testing::Environment {
  void SetUp() override {
    const auto status = runtime::emulator::select_backend(test_cluster());
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

TEST(EmulatedChain, DetectsAWrongByteOnEitherLink) {
  const Chain chain;
  std::mt19937 random(chosen_seed());
  for (std::size_t link = 0; link < 2; ++link) {
    int seen = 0;
    for (std::uint32_t trial = 0; trial < 100; ++trial) {
      Frame sent = random_frame(kElements, trial), wrong = sent;
      wrong[random() % kElements] ^= std::byte{1};
      for (std::size_t card = link + 1; card < chain.programs.size(); ++card) {
        sent = through(chain.programs[card], {sent});
        wrong = through(chain.programs[card], {wrong});
      }
      seen += sent != wrong ? 1 : 0;
    }
    EXPECT_GE(seen, 95) << "wrong bytes behind card " << link << " that changed an output, of 100";
  }
}

TEST(EmulatedChain, DeliversFramesInOrderWithSeveralInFlight) {
  Chain chain;
  const std::pair<std::uint32_t, std::uint32_t> rows[] = {{0, 0}, {1, kRowIn}, {1, kRowOut}, {2, 0}};
  const auto counters = [&](std::uint32_t offset) {
    std::vector<std::uint32_t> values;
    for (const auto& [card, row] : rows) values.push_back(chain.controls[card]->link_register(row, offset));
    return values;
  };
  const auto bytes = counters(abi::kLinkBytesLow), packets = counters(abi::kLinkPacketsLow);
  const auto stalls = chain.controls[0]->link_register(0, abi::kLinkStallsLow);
  chain.run(100, 1);
  const auto later_bytes = counters(abi::kLinkBytesLow), later_packets = counters(abi::kLinkPacketsLow);
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    EXPECT_EQ(later_bytes[i] - bytes[i], 100 * kElements)
        << "card " << rows[i].first << " row " << rows[i].second;
    EXPECT_EQ(later_packets[i] - packets[i], 100 * ((kElements + kSmallPacket - 1) / kSmallPacket));
  }
  EXPECT_EQ(counters(abi::kLinkStatus), std::vector<std::uint32_t>(4, 3u)) << "cable there, peer in service";
  EXPECT_GT(chain.controls[0]->link_register(0, abi::kLinkStallsLow), stalls)
      << "two credits cannot hold eleven packets";
}

TEST(EmulatedChain, LosesNoFrameWhenTheOutputIsBlocked) {
  Chain chain;
  for (std::uint32_t n = 0; n < Chain::kSlots; ++n)
    chain.in[n]->start(random_frame(kElements, n), chain.epoch, n);
  EXPECT_EQ(chain.in[Chain::kSlots - 1]->run().wait(milliseconds(50)), ERT_CMD_STATE_TIMEOUT)
      << "ten frames cannot be taken in while none leaves";
  for (std::uint32_t n = 0; n < Chain::kSlots; ++n) {
    chain.out[n]->start(chain.epoch, n);
    ASSERT_EQ(chain.out[n]->wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(chain.out[n]->trailer().status, abi::FrameStatus::kOk);
    EXPECT_EQ(chain.out[n]->frame(), chain.expected(random_frame(kElements, n)));
  }
  for (auto& ingress : chain.in) EXPECT_EQ(ingress->wait(), ERT_CMD_STATE_COMPLETED);
}

TEST(EmulatedChain, TransfersTheSameFramesInPacketsOfEverySize) {
  for (const auto& [packet, credits] :
       {std::pair{1u, 1u}, {7u, 3u}, {kElements - 1, 1u}, {kElements, 4u}, {65536u, 8u}}) {
    SCOPED_TRACE("packets of " + std::to_string(packet) + " bytes, " + std::to_string(credits) + " credits");
    Chain chain(packet, credits);
    chain.run(10, packet);
  }
}

TEST(EmulatedChain, DropsFramesInFlightWhenANewEpochStarts) {
  // Test ring buffers that are smaller than a frame, and ring buffers for several frames.
  for (const std::uint32_t credits : {kFewCredits, 40u}) {
    SCOPED_TRACE(std::to_string(credits) + " credits");
    Chain chain(kSmallPacket, credits);
    for (std::uint32_t round = 0; round < 10; ++round) {
      for (std::uint32_t n = 0; n < Chain::kSlots; ++n)
        chain.in[n]->start(random_frame(kElements, 1000 + n), chain.epoch, n);
      EXPECT_EQ(chain.in[5]->wait(), ERT_CMD_STATE_COMPLETED) << "six frames have room on the cards";
      chain.raise_epoch();
      for (auto& ingress : chain.in)
        EXPECT_EQ(ingress->wait(), ERT_CMD_STATE_COMPLETED) << "flushed runs complete";
      chain.run(3, round);
    }
  }
}

TEST(EmulatedChain, LosesOnlyTheFrameDuringWhichTheSenderRestarts) {
  Chain chain;
  constexpr std::uint32_t kFrames = 4, kLost = 2;
  const auto packets = [&] { return chain.controls[1]->link_register(kRowOut, abi::kLinkPacketsLow); };
  // The test reads no output frames. The last card therefore keeps two frames, and two packets of the third frame wait
  // in the ring buffer.
  const auto full = packets() + 2 * ((kElements + kSmallPacket - 1) / kSmallPacket) + kFewCredits;
  for (std::uint32_t n = 0; n < kFrames; ++n) chain.in[n]->start(random_frame(kElements, n), chain.epoch, n);
  ASSERT_TRUE(wait_until([&] { return packets() >= full; }));
  ASSERT_EQ(packets(), full);
  chain.controls[1]->enable(kRowOut, false);
  chain.controls[1]->enable(kRowOut);
  for (std::uint32_t n = 0; n < kFrames; ++n) chain.out[n]->start(chain.epoch, n);
  for (std::uint32_t n = 0; n < kFrames; ++n) {
    ASSERT_EQ(chain.out[n]->wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(chain.out[n]->trailer().status,
              n == kLost ? abi::FrameStatus::kDropped : abi::FrameStatus::kOk);
    if (n != kLost) {
      EXPECT_EQ(chain.out[n]->frame(), chain.expected(random_frame(kElements, n)));
    }
  }
}

TEST(EmulatedChain, ReportsALostMiddleCardAndRecoversAfterAReload) {
  Chain chain;
  chain.run(5, 1);
  {
    Supervisor supervisor(1, chain.images[1]);
    supervisor.start();
    for (std::uint32_t n = 0; n < Chain::kSlots; ++n) chain.out[n]->start(chain.epoch, 5 + n);
    const auto process = card_process("fpga1");
    ASSERT_GT(process, 0);
    ASSERT_EQ(kill(process, SIGKILL), 0);
    EXPECT_EQ(supervisor.wait(), ERT_CMD_STATE_ERROR);
    EXPECT_TRUE(await_end(process));
  }
  EXPECT_EQ(chain.controls[0]->link_register(0, abi::kLinkStatus), 1u) << "cable there, peer gone";
  for (std::uint32_t n = 0; n < Chain::kSlots; ++n)
    chain.in[n]->start(random_frame(kElements, n), chain.epoch, 5 + n);
  EXPECT_EQ(chain.out[0]->wait(milliseconds(50)), ERT_CMD_STATE_TIMEOUT) << "no frame passes a dead card";

  chain.load_middle();
  chain.bind_middle();
  chain.raise_epoch();
  for (auto& egress : chain.out) {
    ASSERT_EQ(egress->wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(egress->trailer().status, abi::FrameStatus::kDropped);
  }
  for (auto& ingress : chain.in) EXPECT_EQ(ingress->wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(chain.controls[0]->link_register(0, abi::kLinkStatus), 3u);
  chain.run(20, 7);
}

TEST(EmulatedChain, DeliversNoWrongFrameWhenCardsAreKilled) {
  Chain chain;
  for (std::uint32_t round = 0; round < 12; ++round) {
    for (std::uint32_t n = 0; n < Chain::kSlots; ++n) {
      chain.out[n]->start(chain.epoch, n);
      chain.in[n]->start(random_frame(kElements, n), chain.epoch, n);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(round * 20));  // a new moment in each round
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

TEST(EmulatedChain, SenderWaitsForAReceiverThatStartsLater) {
  Chain chain;
  chain.controls[2]->enable(0, false);
  EXPECT_EQ(chain.controls[1]->link_register(kRowOut, abi::kLinkStatus), 1u);
  chain.out[0]->start(chain.epoch, 0);
  chain.in[0]->start(random_frame(kElements, 1), chain.epoch, 0);
  EXPECT_EQ(chain.out[0]->wait(milliseconds(30)), ERT_CMD_STATE_TIMEOUT);
  chain.controls[2]->enable(0);
  ASSERT_EQ(chain.out[0]->wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(chain.out[0]->frame(), chain.expected(random_frame(kElements, 1)));
}

TEST(EmulatedChain, ReportsALinkWhoseEndsHaveDifferentPacketSizes) {
  Chain chain;
  Supervisor supervisor(2, chain.images[2]);
  supervisor.start();
  chain.controls[2]->enable(0, false);
  chain.controls[2]->link(0, 0, 5, kSmallPacket + 1, kFewCredits);
  chain.controls[1]->enable(kRowOut, false);
  chain.controls[1]->enable(kRowOut);
  chain.controls[2]->enable(0);
  ASSERT_EQ(supervisor.wait(), ERT_CMD_STATE_COMPLETED);
  const auto report = supervisor.report();
  EXPECT_EQ(report.code, abi::FaultCode::kProtocol);
  EXPECT_EQ(report.link_index, 0u);
  EXPECT_NE(std::string(report.detail).find("96"), std::string::npos) << report.detail;
}

TEST(EmulatedChain, ReceiverReportsAFrameOfUnexpectedSize) {
  Chain chain;
  chain.out.clear();
  chain.controls[2].reset();
  const auto shorter = lookup_program(kElements / 2, 9);
  chain.images[2] =
      load(2, container(image_data(shorter, {{"in0", Kind::kLinkReceive}, {"out0", Kind::kEgress}})));
  chain.controls[2] = std::make_unique<Control>(2, chain.images[2]);
  Supervisor supervisor(2, chain.images[2]);
  supervisor.start();
  chain.bind_last();
  chain.controls[2]->epoch(chain.epoch);
  chain.in[0]->start(random_frame(kElements, 1), chain.epoch, 0);
  ASSERT_EQ(supervisor.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(supervisor.report().code, abi::FaultCode::kProtocol);
}

TEST(EmulatedChain, RefusesAnInvalidRowOfTheLinkTable) {
  Chain chain;
  auto& control = *chain.controls[1];
  control.enable(kRowOut, false);
  const auto refuses = [&](std::uint32_t connector, std::uint32_t tag, std::uint32_t packet,
                           std::uint32_t credits) {
    control.link(kRowOut, connector, tag, packet, credits);
    EXPECT_THROW(control.enable(kRowOut), std::exception)
        << "connector " << connector << " tag " << tag << " packet " << packet << " credits " << credits;
    EXPECT_EQ(control.link_register(kRowOut, abi::kLinkEnable), 0u);
  };
  refuses(3, 0, 64, 4);
  EXPECT_EQ(control.link_register(kRowOut, abi::kLinkStatus), 0u) << "no cable on connector 3";
  refuses(63, 0, 64, 4);
  refuses(1, abi::kMaxTags, 64, 4);
  refuses(1, 0, 0, 4);
  refuses(1, 0, 64, 0);
  refuses(1, 0, 0xffffffff, 1);
  refuses(1, 0, 64, 0xffffffff);
  EXPECT_THROW(control.link(7, 0, 0, 64, 4), std::exception) << "no such row";
  EXPECT_THROW(control.write(0xff0, 1), std::exception);
  chain.bind_middle();
  EXPECT_THROW(control.link(kRowOut, 1, 6, 64, 4), std::exception) << "in service";
  chain.raise_epoch();
  chain.run(3, 1);
}

TEST(EmulatedChain, PacksNarrowElementsOnTheWire) {
  constexpr kernels::ElementType kNibble{kernels::ElementType::Kind::kUnsigned, 4};
  constexpr kernels::ElementType kThree{kernels::ElementType::Kind::kSigned, 3};
  const auto first = lookup_program(kElements, 1, {}, kNibble),
             second = lookup_program(kElements, 2, kNibble, kThree),
             third = lookup_program(kElements, 3, kThree, {});
  const auto a = load(0, container(image_data(first, {{"in0", Kind::kIngress}, {"out0", Kind::kLinkSend}})));
  const auto b =
      load(1, container(image_data(second, {{"in0", Kind::kLinkReceive}, {"out0", Kind::kLinkSend}})));
  const auto c =
      load(2, container(image_data(third, {{"in0", Kind::kLinkReceive}, {"out0", Kind::kEgress}})));
  Control ca(0, a), cb(1, b), cc(2, c);
  const auto bind = [](Control& control, std::uint32_t row, std::uint32_t connector) {
    control.enable(row, false);
    control.link(row, connector, 0, 100, 3);
    control.enable(row);
  };
  bind(ca, 0, 0);
  bind(cb, 0, 0);
  bind(cb, 1, 1);
  bind(cc, 0, 0);
  for (auto* control : {&ca, &cb, &cc}) control->epoch(1);
  const auto first_bytes = ca.link_register(0, abi::kLinkBytesLow),
             last_bytes = cc.link_register(0, abi::kLinkBytesLow);
  IngressUnit in(0, a, "p_in0", kElements);
  EgressUnit out(2, c, "p_out0", kElements);
  for (std::uint32_t n = 0; n < 5; ++n) {
    const auto frame = random_frame(kElements, n);
    out.start(1, n);
    in.start(frame, 1, n);
    ASSERT_EQ(out.wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(out.trailer().status, abi::FrameStatus::kOk);
    EXPECT_EQ(in.wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(out.frame(), through(third, {through(second, {through(first, {frame})})}));
  }
  EXPECT_EQ(ca.link_register(0, abi::kLinkBytesLow) - first_bytes, 5 * kElements / 2);
  EXPECT_EQ(cc.link_register(0, abi::kLinkBytesLow) - last_bytes, 5 * kElements * 3 / 8);
}

TEST(EmulatedChain, JoinsBothBranchesOfAResidualGraphBySequenceNumber) {
  const auto first = lookup_program(kElements, 1), middle = lookup_program(kElements, 2),
             add = add_program(kElements);
  // Card 0 sends its only output to card 1 and also, over another cable, to card 2.
  const auto a =
      load(0, container(image_data(
                  first, {{"in0", Kind::kIngress}, {"out0", Kind::kLinkSend}, {"out0", Kind::kLinkSend}})));
  const auto b =
      load(1, container(image_data(middle, {{"in0", Kind::kLinkReceive}, {"out0", Kind::kLinkSend}})));
  const auto c =
      load(2, container(image_data(
                  add, {{"in0", Kind::kLinkReceive}, {"in1", Kind::kLinkReceive}, {"out0", Kind::kEgress}})));
  Control ca(0, a), cb(1, b), cc(2, c);
  EXPECT_EQ(ca.read(abi::kRegLinkPorts), 2u);
  const auto bind = [](Control& control, std::uint32_t row, std::uint32_t connector) {
    control.enable(row, false);
    control.link(row, connector, 2, 128, 2);
    control.enable(row);
  };
  bind(ca, 0, 0);
  bind(ca, 1, 1);
  bind(cb, 0, 0);
  bind(cb, 1, 1);
  bind(cc, 0, 1);
  bind(cc, 1, 0);
  for (auto* control : {&ca, &cb, &cc}) control->epoch(1);
  constexpr std::uint32_t kInFlight = 4;
  std::vector<std::unique_ptr<IngressUnit>> in;
  std::vector<std::unique_ptr<EgressUnit>> out;
  for (std::uint32_t i = 0; i < kInFlight; ++i) {
    in.push_back(std::make_unique<IngressUnit>(0, a, "p_in0", kElements));
    out.push_back(std::make_unique<EgressUnit>(2, c, "p_out0", kElements));
  }
  for (std::uint32_t n = 0; n < 40; n += kInFlight) {
    for (std::uint32_t i = 0; i < kInFlight; ++i) {
      out[i]->start(1, n + i);
      in[i]->start(random_frame(kElements, n + i), 1, n + i);
    }
    for (std::uint32_t i = 0; i < kInFlight; ++i) {
      ASSERT_EQ(out[i]->wait(), ERT_CMD_STATE_COMPLETED);
      EXPECT_EQ(out[i]->trailer().sequence, n + i);
      const auto early = through(first, {random_frame(kElements, n + i)});
      EXPECT_EQ(out[i]->frame(), through(add, {early, through(middle, {early})}));
      EXPECT_EQ(in[i]->wait(), ERT_CMD_STATE_COMPLETED);
    }
  }
}

}  // namespace
}  // namespace millrace::tests::test_emulated_chain
