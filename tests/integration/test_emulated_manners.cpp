// Tests emulated cards with the manners of hardware through the real XRT library: a lost card, aborted runs, resets, loads,
// cables and costs. Each test fails for cards with the default manners.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <experimental/xrt_xclbin.h>
#include <xrt.h>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "emulated_chain.hpp"
#include "runtime/card/card.hpp"
#include "runtime/emulator/backend.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_emulated_manners {
namespace {

namespace card = runtime::card;
using card::ResetStep;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kProgramTime{40}, kCableTime{150};
constexpr std::chrono::microseconds kRegisterCost{100}, kSyncCost{100}, kStartCost{100};
constexpr std::uint32_t kAllOnes = ~0u;

class Backend : public testing::Environment {
  void SetUp() override {
    setenv("MILLRACE_EMULATION_OPTIONS",
           "program_time=40 cable_time=150 reset_time=30 register_cost=100000 sync_cost=100000 "
           "start_cost=100000 "
           "call_timeout=2000",
           1);
    const auto status = runtime::emulator::select_backend(
        test_cluster(), runtime::emulator::Fidelity::kFunctional, 0, runtime::emulator::Manners::kHardware);
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

Bytes host_to_host(std::uint32_t seed = 1) {
  return container(
      image_data(lookup_program(kElements, seed), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}}));
}

/// Returns the image of host_to_host() whose kernels declare a software reset.
Bytes with_software_reset() {
  XclbinParts parts(host_to_host());
  parts.set_uuid(0x33);
  // Remove Millrace's checksum, which would no longer match.
  std::memset(parts.header.data() + offsetof(axlf, m_keyBlock), 0, sizeof(axlf::m_keyBlock));
  Bytes& section = *parts.find(EMBEDDED_METADATA);
  std::string xml(reinterpret_cast<const char*>(section.data()), section.size());
  const std::string before = "hwControlProtocol=\"ap_ctrl_chain\"";
  for (auto at = xml.find(before); at != std::string::npos; at = xml.find(before, at + before.size()))
    xml.insert(at, "swReset=\"true\" ");
  const auto text = std::as_bytes(std::span(xml));
  section.assign(text.begin(), text.end());
  return parts.assemble();
}

/// Resets the device as `xbutil reset` does.
int reset_device(unsigned index, xclResetKind kind = XCL_USER_RESET) {
  const auto handle = static_cast<xclDeviceHandle>(device(index));  // XRT then loads the library
  void* const library = dlopen("libxrt_core.so.2", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return 1;
  const auto reset = reinterpret_cast<int (*)(void*, xclResetKind)>(
      dlsym(library, "_Z22xclInternalResetDevicePv12xclResetKind"));
  dlclose(library);
  return reset == nullptr ? 1 : reset(handle, kind);
}

/// Returns the errno of the exception that `action` throws, or 0 if it throws none.
template <class Action>
int error_of(Action action) {
  try {
    action();
    return 0;
  } catch (const std::system_error& error) {
    return std::abs(error.code().value());
  }
}

/// The compute units that a test opens on card 0. They must be destroyed before another image is loaded.
struct Opened {
  explicit Opened(const xrt::uuid& image)
      : ingress(0, image, "p_in0", kElements), egress(0, image, "p_out0", kElements), control(0, image) {
    control.epoch(1);
  }
  bool works(std::uint64_t sequence, const kernels::Program& program = lookup_program(kElements, 1)) {
    const auto frame = random_frame(kElements, 7);
    egress.start(1, sequence);
    ingress.start(frame, 1, sequence);
    return egress.wait() == ERT_CMD_STATE_COMPLETED && ingress.wait() == ERT_CMD_STATE_COMPLETED &&
           egress.frame() == through(program, {frame});
  }
  IngressUnit ingress;
  EgressUnit egress;
  Control control;
};

/// Each test begins with a card 0 that was reset.
class EmulatedCardLikeHardware : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(reset_device(0), 0); }

  static void kill_card() {
    const pid_t process = card_process("fpga0");
    ASSERT_GT(process, 0);
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    ASSERT_TRUE(await_end(process));
  }
};

TEST_F(EmulatedCardLikeHardware, RunsOfALostCardCompleteAndItsMemoryAndRegistersReadAllOnes) {
  Opened opened(load(0, host_to_host()));
  ASSERT_TRUE(opened.works(0));
  opened.egress.start(1, 1);
  kill_card();
  EXPECT_EQ(opened.egress.wait(), ERT_CMD_STATE_COMPLETED) << "no frame came, but the driver reads all ones";
  EXPECT_EQ(opened.egress.trailer().magic, kAllOnes);
  EXPECT_EQ(opened.control.read(abi::kRegAbiVersion), kAllOnes);
  EXPECT_NO_THROW(opened.control.epoch(2)) << "writes go nowhere and are no error";
}

TEST_F(EmulatedCardLikeHardware, ALostCardRefusesRunsContextsAndLoadsUntilTheDeviceIsReset) {
  {
    Opened opened(load(0, host_to_host()));
    kill_card();
    EXPECT_EQ(error_of([&] { opened.egress.start(1, 1); }), EDEADLK);
    EXPECT_EQ(error_of([&] { load(0, host_to_host()); }), EDEADLK) << "even the image that was loaded";
  }
  EXPECT_EQ(error_of([&] { load(0, host_to_host(2)); }), EDEADLK);
  EXPECT_EQ(reset_device(0, XCL_RESET_FULL), -EINVAL) << "users can only reset the user function";
  EXPECT_EQ(error_of([&] { load(0, host_to_host(2)); }), EDEADLK);
  ASSERT_EQ(reset_device(0), 0);
  Opened opened(load(0, host_to_host(2)));
  EXPECT_TRUE(opened.works(0, lookup_program(kElements, 2)));
}

TEST_F(EmulatedCardLikeHardware, AbortingAnExecutingRunMakesTheCardUnusable) {
  const auto image = load(0, host_to_host());
  Opened opened(image);
  opened.egress.start(1, 0);
  EXPECT_EQ(opened.egress.run().abort(), ERT_CMD_STATE_TIMEOUT);
  EXPECT_EQ(error_of([&] { opened.egress.start(1, 1); }), EDEADLK);
  EXPECT_EQ(error_of([&] { load(0, host_to_host()); }), EDEADLK);
  EXPECT_EQ(opened.control.read(abi::kRegAbiVersion), abi::kAbiVersion) << "the card itself still answers";
}

TEST_F(EmulatedCardLikeHardware, AbortingARunOfAUnitWithSoftwareResetKeepsTheCardUsable) {
  Opened opened(load(0, with_software_reset()));
  opened.egress.start(1, 0);
  EXPECT_EQ(opened.egress.run().abort(), ERT_CMD_STATE_TIMEOUT);
  EXPECT_TRUE(opened.works(1));
}

TEST_F(EmulatedCardLikeHardware, AbortingARunThatWaitsInTheQueueKeepsTheCardUsable) {
  const auto image = load(0, host_to_host());
  Opened opened(image);
  EgressUnit second(0, image, "p_out0", kElements);
  opened.egress.start(1, 0);
  second.start(1, 1);
  EXPECT_EQ(second.run().abort(), ERT_CMD_STATE_ABORT);
  opened.ingress.start(random_frame(kElements, 1), 1, 0);
  EXPECT_EQ(opened.egress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(opened.ingress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_TRUE(opened.works(2));
}

TEST_F(EmulatedCardLikeHardware, ClosingAComputeUnitAbortsItsRuns) {
  const auto image = load(0, host_to_host());
  {
    EgressUnit egress(0, image, "p_out0", kElements);
    egress.start(1, 0);
  }
  EXPECT_EQ(error_of([&] { load(0, host_to_host(2)); }), EDEADLK);
  ASSERT_EQ(reset_device(0), 0);
  const auto again = load(0, with_software_reset());
  {
    EgressUnit egress(0, again, "p_out0", kElements);
    egress.start(1, 0);
  }
  EXPECT_EQ(error_of([&] { load(0, host_to_host(2)); }), 0);
}

TEST_F(EmulatedCardLikeHardware, LoadingTheSameImageAgainChangesNothingOnTheCard) {
  Opened opened(load(0, host_to_host()));
  opened.control.epoch(5);
  opened.egress.start(5, 0);
  const auto begin = Clock::now();
  EXPECT_EQ(error_of([&] { load(0, host_to_host()); }), 0);
  EXPECT_LT(Clock::now() - begin, kProgramTime) << "nothing was programmed";
  EXPECT_EQ(opened.egress.run().state(), ERT_CMD_STATE_RUNNING) << "the unit still waits for its frame";
  EXPECT_EQ(opened.control.read(abi::kRegEpoch), 5u);
}

TEST_F(EmulatedCardLikeHardware, ACardThatDoesNotAnswerIsTreatedAsLost) {
  Opened opened(load(0, host_to_host()));
  const pid_t process = card_process("fpga0");
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  EXPECT_EQ(opened.control.read(abi::kRegAbiVersion), kAllOnes);
  EXPECT_TRUE(await_end(process));
}

TEST_F(EmulatedCardLikeHardware, EachXrtCallTakesAtLeastItsConfiguredTime) {
  Opened opened(load(0, host_to_host()));
  const auto time_of = [](auto action) {
    const auto begin = Clock::now();
    for (int i = 0; i < 10; ++i) action();
    return Clock::now() - begin;
  };
  EXPECT_GE(time_of([&] { opened.control.read(abi::kRegEpoch); }), 10 * kRegisterCost);
  EXPECT_GE(time_of([&] { opened.egress.frame(); }), 10 * kSyncCost);
  std::uint64_t sequence = 0;
  EXPECT_GE(time_of([&] { EXPECT_TRUE(opened.works(sequence++)); }), 10 * (2 * kStartCost + 2 * kSyncCost));
}

TEST_F(EmulatedCardLikeHardware, CablesComeUpSomeTimeAfterTheImageIsLoaded) {
  for (const unsigned other : {1u, 2u}) ASSERT_EQ(reset_device(other), 0);
  const auto begin = Clock::now();
  Chain chain;
  EXPECT_GE(Clock::now() - begin, 3 * kProgramTime);
  ASSERT_TRUE(wait_until([&] { return chain.controls[1]->link_register(kRowOut, abi::kLinkStatus) == 3u; }));
  EXPECT_GE(Clock::now() - begin, 3 * kProgramTime + kCableTime);
  chain.run(50, 1);
}

TEST_F(EmulatedCardLikeHardware, FramesWaitUntilTheCableIsUp) {
  for (const unsigned other : {1u, 2u}) ASSERT_EQ(reset_device(other), 0);
  Chain chain;
  chain.run(20, 3);  // begins while the cables are still down
}

TEST_F(EmulatedCardLikeHardware, CablesAreDownWhileTheNeighbouringCardIsLoaded) {
  for (const unsigned other : {1u, 2u}) ASSERT_EQ(reset_device(other), 0);
  Chain chain;
  chain.run(5, 1);
  const auto status = [&] { return chain.controls[0]->link_register(0, abi::kLinkStatus); };
  EXPECT_EQ(status(), 3u);
  chain.controls[1].reset();
  ASSERT_EQ(reset_device(1), 0);
  EXPECT_EQ(status(), 0u) << "the neighbour has no image";
  const auto begin = Clock::now();
  chain.load_middle();
  chain.bind_middle();
  ASSERT_TRUE(wait_until([&] { return status() == 3u; }));
  EXPECT_GE(Clock::now() - begin, kProgramTime + kCableTime);
  chain.raise_epoch();
  chain.run(20, 5);
}

/// Opens card 0 as a pipeline does, loads an image, and starts an egress run for a frame that never comes.
class ResetOfACard : public EmulatedCardLikeHardware {
 protected:
  void open(const Bytes& image) {
    auto opened = card::open({0, ""});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    card_ = std::move(*opened);
    ASSERT_TRUE(load(image));
    ASSERT_TRUE(card_->write(abi::kRegEpoch, 1).ok());
    ASSERT_TRUE(egress_->start(0, 1, 0).ok());
    ASSERT_EQ(egress_->wait(0, milliseconds(20)), card::RunState::kRunning)
        << "the time passed, the run goes on";
  }
  bool load(const Bytes& image) {
    const auto loaded = card_->load(image);
    if (!loaded.ok()) return ADD_FAILURE() << loaded.error().message(), false;
    auto made = card_->make_egress("millrace_egress:{p_out0}", kElements, 2);
    if (!made.ok()) return ADD_FAILURE() << made.error().message(), false;
    egress_ = std::move(*made);
    return card_->start_supervisor().ok();
  }
  void TearDown() override {
    egress_.reset();
    card_.reset();
  }
  std::unique_ptr<card::Card> card_;
  std::unique_ptr<card::Egress> egress_;
};

TEST_F(ResetOfACard, ResettingComputeUnitsAbortsTheirRunsIfTheKernelsHaveASoftwareReset) {
  open(with_software_reset());
  const Status reset = card_->reset(ResetStep::kUnit);
  ASSERT_TRUE(reset.ok()) << reset.error().message();
  EXPECT_EQ(egress_->wait(0, milliseconds(20)), card::RunState::kFailed) << "the driver aborted the run";
  EXPECT_TRUE(egress_->start(0, 1, 1).ok()) << "the card is still in use";
}

TEST_F(ResetOfACard, ResettingComputeUnitsIsRefusedIfTheKernelsHaveNoSoftwareReset) {
  open(host_to_host());
  const Status reset = card_->reset(ResetStep::kUnit);
  ASSERT_FALSE(reset.ok());
  EXPECT_EQ(reset.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(egress_->wait(0, milliseconds(20)), card::RunState::kRunning);
}

TEST_F(ResetOfACard, ResettingTheShellEndsAllRunsAndKeepsTheImage) {
  open(host_to_host());
  const Status reset = card_->reset(ResetStep::kShell);
  ASSERT_TRUE(reset.ok()) << reset.error().message();
  ASSERT_EQ(egress_->wait(0, milliseconds(20)), card::RunState::kDone);
  const auto trailer = egress_->fetch(0);
  ASSERT_TRUE(trailer.ok());
  EXPECT_EQ(trailer->status, abi::FrameStatus::kDropped);
  EXPECT_TRUE(card_->supervisor_ended());
  egress_.reset();
  const auto loaded = card_->load(host_to_host());
  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(*loaded) << "the image stayed";
}

TEST_F(ResetOfACard, ALostCardRecoversOnlyIfTheWholeDeviceIsReset) {
  open(host_to_host());
  kill_card();
  EXPECT_EQ(card_->read(abi::kRegEpoch).error().code(), ErrorCode::kUnavailable) << "all ones are no value";
  for (const ResetStep step : {ResetStep::kUnit, ResetStep::kShell}) EXPECT_FALSE(card_->reset(step).ok());
  egress_.reset();
  const auto refused = card_->load(host_to_host());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable) << refused.error().message();
  const Status reset = card_->reset(ResetStep::kDevice);
  ASSERT_TRUE(reset.ok()) << reset.error().message();
  EXPECT_TRUE(load(host_to_host()));
}

}  // namespace
}  // namespace millrace::tests::test_emulated_manners
