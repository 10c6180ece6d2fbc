// Tests one emulated card through the real XRT library: every function on which runtime/card relies.
#include <gtest/gtest.h>
#include <signal.h>

#include <experimental/xrt_system.h>
#include <experimental/xrt_xclbin.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "emulated_host.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/support/file_environment.hpp"

namespace millrace::tests::test_emulated_card {
namespace {

namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;
using std::chrono::milliseconds;
using Kind = plan::PortKind;

constexpr std::size_t kElements = 64;

class Backend : public testing::Environment {
  void SetUp() override {
    const auto status = runtime::emulator::select_backend(test_cluster());
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

kernels::Program program(std::uint32_t seed = 1) {
  return lookup_program(kElements, seed);
}

Bytes host_to_host(std::uint32_t seed = 1) {
  return container(image_data(program(seed), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}}));
}

Frame expected(const kernels::Program& p, const Frame& frame) {
  return kernels::reference::run(p, {frame}).front();
}

/// The compute units that a test opens on a loaded card. They must be destroyed before the next image is loaded.
struct Opened {
  explicit Opened(unsigned card, const xrt::uuid& image)
      : ingress(card, image, "p_in0", kElements),
        egress(card, image, "p_out0", kElements),
        control(card, image) {
    control.epoch(1);
  }
  Frame run(const Frame& frame, std::uint64_t sequence, std::uint32_t epoch = 1) {
    egress.start(epoch, sequence);
    ingress.start(frame, epoch, sequence);
    EXPECT_EQ(egress.wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(ingress.wait(), ERT_CMD_STATE_COMPLETED);
    trailer = egress.trailer();
    return egress.frame();
  }
  IngressUnit ingress;
  EgressUnit egress;
  Control control;
  abi::StatusTrailer trailer;
};

TEST(EmulatedCard, FindsDevicesByIndexNameAndPcieAddress) {
  EXPECT_EQ(xrt::system::enumerate_devices(), 4u);
  EXPECT_EQ(device(1).get_info<xrt::info::device::name>(), "ku060");
  EXPECT_EQ(device(1).get_info<xrt::info::device::bdf>(), "0000:00:01.0");
  EXPECT_EQ(xrt::device("0000:00:02.0").get_info<xrt::info::device::bdf>(), "0000:00:02.0");
  EXPECT_THROW(xrt::device(17), std::exception);
}

TEST(EmulatedCard, ReturnsTheResultAndTrailerOfAFrame) {
  const auto image = load(0, host_to_host());
  EXPECT_EQ(image, xrt::xclbin(reinterpret_cast<const axlf*>(host_to_host().data())).get_uuid());
  Opened card(0, image);
  for (std::uint32_t n = 0; n < 20; ++n) {
    const auto frame = random_frame(kElements, n);
    EXPECT_EQ(card.run(frame, n), expected(program(), frame)) << "frame " << n;
    EXPECT_EQ(card.trailer.magic, abi::StatusTrailer{}.magic);
    EXPECT_EQ(card.trailer.status, abi::FrameStatus::kOk);
    EXPECT_EQ(card.trailer.epoch, 1u);
    EXPECT_EQ(card.trailer.sequence, n);
    EXPECT_EQ(card.trailer.payload_bytes, kElements);
    EXPECT_EQ(card.trailer.flags, abi::kTrailerNanoseconds);
  }
  EXPECT_EQ(card.control.read(abi::kRegFramesLow), 20u);
  EXPECT_EQ(card.control.read(abi::kRegAbiVersion), abi::kAbiVersion);
  EXPECT_EQ(card.control.read(abi::kRegLinkPorts), 0u);
}

TEST(EmulatedCard, ExecutesQueuedRunsOfAComputeUnitInOrder) {
  const auto image = load(0, host_to_host());
  Control control(0, image);
  control.epoch(1);
  std::vector<std::unique_ptr<IngressUnit>> in;
  std::vector<std::unique_ptr<EgressUnit>> out;
  constexpr std::uint32_t kFrames = 16;
  for (std::uint32_t n = 0; n < kFrames; ++n) {
    in.push_back(std::make_unique<IngressUnit>(0, image, "p_in0", kElements));
    out.push_back(std::make_unique<EgressUnit>(0, image, "p_out0", kElements));
  }
  for (std::uint32_t n = 0; n < kFrames; ++n) in[n]->start(random_frame(kElements, n), 1, n);
  for (std::uint32_t n = 0; n < kFrames; ++n) out[n]->start(1, n);
  for (std::uint32_t n = 0; n < kFrames; ++n) {
    ASSERT_EQ(out[n]->wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(out[n]->trailer().sequence, n);
    EXPECT_EQ(out[n]->frame(), expected(program(), random_frame(kElements, n)));
    EXPECT_EQ(in[n]->wait(), ERT_CMD_STATE_COMPLETED);
  }
}

TEST(EmulatedCard, IgnoresHostDataThatWereNotSyncedToTheCard) {
  const auto image = load(0, host_to_host());
  xrt::kernel kernel(device(0), image, "millrace_ingress:{p_in0}");
  xrt::bo buffer(device(0), 4096, static_cast<xrt::memory_group>(kernel.group_id(0)));
  const auto frame = random_frame(kElements, 5);
  std::memcpy(buffer.map<std::byte*>(), frame.data(), kElements);
  Opened card(0, image);
  auto run = xrt::run(kernel);
  run.set_arg(abi::kIngressBuffer, buffer);
  run.set_arg(abi::kIngressBytes, static_cast<std::uint32_t>(kElements));
  run.set_arg(abi::kIngressEpoch, 1u);
  run.set_arg(abi::kIngressSequence, std::uint64_t{0});
  card.egress.start(1, 0);
  run.start();
  ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(card.egress.trailer().status, abi::FrameStatus::kOk);
  EXPECT_EQ(card.egress.frame(), expected(program(), Frame(kElements)));
}

TEST(EmulatedCard, MarksFramesOfAnotherEpochAsDropped) {
  const auto image = load(0, host_to_host());
  Opened card(0, image);
  card.ingress.start(random_frame(kElements, 1), 7, 0);
  EXPECT_EQ(card.ingress.wait(), ERT_CMD_STATE_COMPLETED);
  card.egress.start(1, 0);
  EXPECT_EQ(card.egress.wait(milliseconds(50)), ERT_CMD_STATE_TIMEOUT) << "the stale frame must not come out";
  card.control.epoch(2);
  ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_COMPLETED) << "the epoch flushes the run that waits";
  EXPECT_EQ(card.egress.trailer().status, abi::FrameStatus::kDropped);
  const auto frame = random_frame(kElements, 2);
  EXPECT_EQ(card.run(frame, 0, 2), expected(program(), frame));
  EXPECT_EQ(card.control.read(abi::kRegEpoch), 2u);
}

TEST(EmulatedCard, MarksAnEgressRunAsDroppedIfALaterFrameArrivesInsteadOfItsOwn) {
  const auto image = load(0, host_to_host());
  Opened card(0, image);
  EgressUnit later(0, image, "p_out0", kElements);
  card.egress.start(1, 3);
  later.start(1, 4);
  const auto frame = random_frame(kElements, 9);
  card.ingress.start(frame, 1, 4);
  ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(card.egress.trailer().status, abi::FrameStatus::kDropped);
  EXPECT_EQ(card.egress.trailer().sequence, 3u);
  ASSERT_EQ(later.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(later.trailer().status, abi::FrameStatus::kOk);
  EXPECT_EQ(later.frame(), expected(program(), frame));
}

TEST(EmulatedCard, ALayerWithTwoInputsDropsAFrameIfOneInputIsLost) {
  const auto add = add_program(kElements);
  const auto image = load(
      0, container(image_data(add, {{"a", Kind::kIngress}, {"b", Kind::kIngress}, {"out0", Kind::kEgress}})));
  Control control(0, image);
  control.epoch(1);
  IngressUnit a0(0, image, "p_a", kElements), a1(0, image, "p_a", kElements), b1(0, image, "p_b", kElements);
  EgressUnit out0(0, image, "p_out0", kElements), out1(0, image, "p_out0", kElements);
  out0.start(1, 0);
  out1.start(1, 1);
  a0.start(random_frame(kElements, 1), 1, 0);
  a1.start(random_frame(kElements, 2), 1, 1);
  EXPECT_EQ(out0.wait(milliseconds(30)), ERT_CMD_STATE_TIMEOUT) << "b has not come";
  b1.start(random_frame(kElements, 3), 1, 1);
  ASSERT_EQ(out0.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(out0.trailer().status, abi::FrameStatus::kDropped);
  ASSERT_EQ(out1.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(out1.trailer().status, abi::FrameStatus::kOk);
  EXPECT_EQ(out1.frame(),
            kernels::reference::run(add, {random_frame(kElements, 2), random_frame(kElements, 3)}).front());
}

TEST(EmulatedCard, ARunWithABadAddressOrSizeEndsWithAnError) {
  const auto image = load(0, host_to_host());
  xrt::kernel in(device(0), image, "millrace_ingress:{p_in0}"),
      out(device(0), image, "millrace_egress:{p_out0}");
  xrt::bo buffer(device(0), 4096, static_cast<xrt::memory_group>(in.group_id(0)));
  const auto state_of = [&](xrt::kernel& kernel, std::uint64_t offset, std::uint32_t bytes) {
    xrt::run run(kernel);
    run.set_arg(0, buffer);
    run.set_arg(1, bytes);
    run.set_arg(2, 1u);
    run.set_arg(3, std::uint64_t{0});
    if (offset != 0) {  // an address that no buffer object has
      auto* packet = reinterpret_cast<ert_start_kernel_cmd*>(run.get_ert_packet());
      std::memcpy(packet->data + packet->extra_cu_masks + 4, &offset, sizeof offset);
    }
    run.start();
    return run.wait(milliseconds(10'000));
  };
  constexpr std::uint64_t kEnd = 128U << 20U;
  for (auto* kernel : {&in, &out}) {
    for (const std::uint64_t address :
         {kEnd, kEnd - 1, kEnd - kElements + 1, ~std::uint64_t{0}, std::uint64_t{1} << 63})
      EXPECT_EQ(state_of(*kernel, address, kElements), ERT_CMD_STATE_ERROR) << address;
    for (const std::uint32_t bytes : {0u, 1u, static_cast<std::uint32_t>(kElements) + 1, 0xffffffffu})
      EXPECT_EQ(state_of(*kernel, 0, bytes), ERT_CMD_STATE_ERROR) << bytes;
  }
  Opened card(0, image);
  const auto frame = random_frame(kElements, 3);
  EXPECT_EQ(card.run(frame, 0), expected(program(), frame));
}

TEST(EmulatedCard, AbortsARunThatHangs) {
  const auto image = load(0, host_to_host());
  Opened card(0, image);
  card.egress.start(1, 0);
  EXPECT_EQ(card.egress.wait(milliseconds(30)), ERT_CMD_STATE_TIMEOUT);
  EXPECT_EQ(card.egress.run().abort(), ERT_CMD_STATE_ABORT);
  const auto frame = random_frame(kElements, 3);
  EXPECT_EQ(card.run(frame, 1), expected(program(), frame));
}

TEST(EmulatedCard, SupervisorKernelEndsWhenTheHostWritesTheStopRegister) {
  const auto image = load(0, host_to_host());
  Control control(0, image);
  Supervisor supervisor(0, image);
  supervisor.start();
  EXPECT_EQ(supervisor.wait(milliseconds(30)), ERT_CMD_STATE_TIMEOUT);
  control.write(abi::kRegSupervisorStop, 1);
  ASSERT_EQ(supervisor.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(supervisor.report().magic, abi::FaultReport{}.magic);
  EXPECT_EQ(supervisor.report().code, abi::FaultCode::kStopped);
}

TEST(EmulatedCard, FailsAllRunsWhenKilledAndRecoversAfterAReload) {
  auto image = load(0, host_to_host());
  {
    Opened card(0, image);
    Supervisor supervisor(0, image);
    supervisor.start();
    card.egress.start(1, 0);
    const auto process = card_process("fpga0");
    ASSERT_GT(process, 0);
    ASSERT_EQ(kill(process, SIGKILL), 0);
    EXPECT_EQ(card.egress.wait(), ERT_CMD_STATE_ERROR);
    EXPECT_EQ(supervisor.wait(), ERT_CMD_STATE_ERROR);
    EXPECT_THROW(card.ingress.start(random_frame(kElements, 1), 1, 0), std::exception);
    EXPECT_THROW(card.control.read(abi::kRegEpoch), std::exception);
    EXPECT_TRUE(await_end(process));
    const std::string card_program = std::getenv("MILLRACE_CARD");
    setenv("MILLRACE_CARD", "/nonexistent", 1);
    EXPECT_THROW(load(0, host_to_host()), std::system_error) << "a start that fails";
    setenv("MILLRACE_CARD", card_program.c_str(), 1);
    // Load the same FPGA image again while kernel objects of the image exist. These kernel objects must continue to
    // work.
    EXPECT_EQ(load(0, host_to_host()), image);
    card.control.epoch(1);
    const auto frame = random_frame(kElements, 4);
    EXPECT_EQ(card.run(frame, 0), expected(program(), frame));
  }
}

TEST(EmulatedCard, IsKilledWhenItDoesNotAnswerACall) {
  const auto image = load(0, host_to_host());
  {
    Opened card(0, image);
    card.egress.start(1, 0);
    const auto process = card_process("fpga0");
    ASSERT_GT(process, 0);
    ASSERT_EQ(kill(process, SIGSTOP), 0);
    EXPECT_THROW(card.control.read(abi::kRegEpoch), std::exception);
    EXPECT_EQ(card.egress.wait(), ERT_CMD_STATE_ERROR);
    EXPECT_TRUE(await_end(process));
  }
  load(0, host_to_host());
  Opened card(0, image);
  const auto frame = random_frame(kElements, 4);
  EXPECT_EQ(card.run(frame, 0), expected(program(), frame));
}

TEST(EmulatedCard, RefusesAnotherImageWhileKernelsAreInUse) {
  const auto image = load(0, host_to_host(1));
  {
    Opened card(0, image);
    card.control.epoch(77);
    EXPECT_EQ(load(0, host_to_host(1)), image);
    EXPECT_EQ(card.control.read(abi::kRegEpoch), 77u) << "the image was programmed again";
    try {
      load(0, host_to_host(2));
      FAIL() << "a card in use was reprogrammed";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EBUSY) << error.what();
    }
  }
  const auto other = load(0, host_to_host(2));
  Opened card(0, other);
  const auto frame = random_frame(kElements, 1);
  EXPECT_EQ(card.run(frame, 0), expected(program(2), frame));
}

TEST(EmulatedCard, ComputesWhileTheNeighbouringCardIsReloadedAndKilled) {
  const auto image = load(0, host_to_host(1));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, frames{0};
  Opened serving(0, image);
  std::thread server([&] {
    for (std::uint32_t n = 0; !stop; ++n, ++frames) {
      const auto frame = random_frame(kElements, n);
      if (serving.run(frame, n) != expected(program(1), frame)) ++wrong;
    }
  });
  int right = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const auto seed = 1 + i % 2;
    const auto other = load(1, host_to_host(seed));
    Opened card(1, other);
    const auto frame = random_frame(kElements, i);
    right += card.run(frame, i) == expected(program(seed), frame) ? 1 : 0;
    if (i % 10 != 9) continue;
    card.egress.start(1, i + 1);
    ASSERT_TRUE(signal_card("fpga1", SIGKILL));
    ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_ERROR);
  }
  stop = true;
  server.join();
  EXPECT_EQ(right, 200);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(frames, 0);
}

TEST(EmulatedCard, WakesEachOfSeveralThreadsThatWaitForTheirRuns) {
  const auto image = load(2, empty_kernel_image());
  xrt::kernel kernel(device(2), image, "millrace_nop");
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      xrt::run run(kernel);
      run.set_arg(0, 1u);
      for (int i = 0; i < 500; ++i) {
        run.start();
        if (run.wait(milliseconds(10'000)) == ERT_CMD_STATE_COMPLETED) ++completed;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(completed, 2000);
}

TEST(EmulatedCard, SupportsEveryKindOfBuffer) {
  const auto image = load(0, host_to_host());
  auto& d = device(0);
  const auto frame = random_frame(4096, 3);
  {  // a buffer in user memory, and a copy between buffers on the card
    std::vector<std::byte> mine(8192);
    auto* aligned =
        reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(mine.data()) + 4095) / 4096 * 4096);
    std::memcpy(aligned, frame.data(), 4096);
    xrt::bo a(d, aligned, 4096, 0), b(d, 4096, xrt::bo::flags::normal, 0);
    a.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    b.copy(a);
    b.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    EXPECT_EQ(std::memcmp(b.map<std::byte*>(), frame.data(), 4096), 0);
  }
  {  // transfers of parts of a buffer
    xrt::bo whole(d, 8192, 0);
    std::memcpy(whole.map<std::byte*>(), frame.data(), 4096);
    std::memset(whole.map<std::byte*>() + 4096, 7, 4096);
    whole.sync(XCL_BO_SYNC_BO_TO_DEVICE, 4096, 4096);
    std::memset(whole.map<std::byte*>(), 1, 8192);
    whole.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
    EXPECT_EQ(whole.map<std::byte*>()[0], std::byte{0}) << "the first half was never sent";
    EXPECT_EQ(whole.map<std::byte*>()[4096], std::byte{7});
  }
  {  // the second memory bank, and memory that the host reads without a sync
    xrt::bo second(d, 4096, 1), plain(d, 4096, xrt::bo::flags::host_only, 0);
    EXPECT_GE(second.address(), 64U << 20U);
    EXPECT_NE(plain.map<std::byte*>(), nullptr);
  }
  EXPECT_THROW(xrt::bo(d, 4096, 5), std::exception) << "no such bank";
  EXPECT_THROW(xrt::bo(d, 65U << 20U, 0), std::exception) << "larger than its bank";
  for (int i = 0; i < 50; ++i) {  // 50 times 60 MiB: freed memory can be allocated again
    xrt::bo large(d, 60U << 20U, 0);
    EXPECT_NE(large.address(), 0u);
  }
  EXPECT_EQ(load(0, host_to_host()), image);
}

}  // namespace
}  // namespace millrace::tests::test_emulated_card
