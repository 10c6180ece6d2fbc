// Tests emulated cards at rtl fidelity through the real XRT library. These cards compute by simulating
// SystemVerilog instead of with kernels/fast.
#include <experimental/xrt_xclbin.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "emulated_host.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/rtl/build.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/rtl_folder.hpp"

namespace millrace::tests::test_emulated_rtl {
namespace {

namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;
namespace rtl = runtime::rtl;
using Kind = plan::PortKind;

class Backend : public testing::Environment {
  void SetUp() override {
    setenv("MILLRACE_CACHE", shared_simulation_cache().c_str(), 1);
    const auto status = runtime::emulator::select_backend(test_cluster(), runtime::emulator::Fidelity::kRtl);
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

/// Returns the program that the SystemVerilog of `made` computes: an addition, with 16 elements per frame.
kernels::Program adding_program(const HandMade& made) {
  const kernels::ElementType type{kernels::ElementType::Kind::kUnsigned, 8};
  kernels::Program program = lookup_program(made.lanes * made.beats, 1, type, type);
  auto& table = std::get<kernels::Lookup>(program.blocks[0].operation).table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int16_t>((i + made.plus) % 256);
  return program;
}

constexpr std::size_t kElements = 16;

class EmulatedRtl : public testing::Test {
 protected:
  void SetUp() override {
    auto tools = rtl::Toolchain::find();
    ASSERT_TRUE(tools.ok()) << tools.error().message();
    tools_ = *tools;
  }
  /// Returns an FPGA image whose partition has the SystemVerilog of `made`. Images with different `name`s
  /// have different UUIDs.
  Bytes image_of(HandMade made, const std::string& name, std::vector<PortSpec> ports, bool listed = true) {
    made.partition = "p";
    auto data = image_data(adding_program(made), ports);
    data.record.name = name;
    data.record.partitions[0].nodes = {name};
    data.record.content_digest = plan::compute_content_digest(data.record);
    if (listed) {
      write_rtl_folder(directory_.path(), made);
      const auto source = rtl::read_source(directory_.path(), "p");
      const Cache cache = *Cache::open();
      const auto entry = rtl::build_simulation(cache, tools_, *source, {});
      if (!entry.ok()) throw std::runtime_error(entry.error().message());
      EXPECT_TRUE(rtl::list_simulations(cache, data.record.content_digest, {{"p", *entry}}).ok());
    }
    return container(data);
  }
  static Frame frame_of(unsigned seed) {
    Frame frame(kElements);
    for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(seed * 31 + i * 7);
    return frame;
  }

  TemporaryDirectory directory_{"millrace-rtl-card"};
  rtl::Toolchain tools_;
};

const std::vector<PortSpec> kHostToHost = {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}};

TEST_F(EmulatedRtl, ReturnsTheCorrectOutputsAndTheCycleCount) {
  HandMade made;
  made.pause = 3;
  const auto image = load(0, image_of(made, "paused", kHostToHost));
  IngressUnit ingress(0, image, "p_in0", kElements);
  EgressUnit egress(0, image, "p_out0", kElements);
  Control control(0, image);
  control.epoch(1);
  for (unsigned n = 0; n < 10; ++n) {
    egress.start(1, n);
    ingress.start(frame_of(n), 1, n);
    ASSERT_EQ(egress.wait(), ERT_CMD_STATE_COMPLETED);
    ASSERT_EQ(ingress.wait(), ERT_CMD_STATE_COMPLETED);
    EXPECT_EQ(egress.frame(), kernels::reference::run(adding_program(made), {frame_of(n)}).front());
    EXPECT_EQ(egress.trailer().flags & abi::kTrailerNanoseconds, 0U);
    EXPECT_NEAR(static_cast<double>(egress.trailer().cycles), static_cast<double>(made.interval()), 4.0);
    EXPECT_EQ(egress.trailer().stall_cycles, 0U);
  }
  EXPECT_EQ(control.read(abi::kRegFramesLow), 10U);
}

TEST_F(EmulatedRtl, SimulatedCardsPassFramesOverACable) {
  HandMade first, second;
  second.lanes = 4;
  second.beats = 4;
  const auto image0 = load(0, image_of(first, "first", {{"in0", Kind::kIngress}, {"out0", Kind::kLinkSend}}));
  const auto image1 =
      load(1, image_of(second, "second", {{"in0", Kind::kLinkReceive}, {"out0", Kind::kEgress}}));
  Control control0(0, image0), control1(1, image1);
  control0.epoch(1);
  control1.epoch(1);
  for (auto* control : {&control0, &control1}) {
    control->link(0, 0, 3, 8, 2);
    control->enable(0);
  }
  IngressUnit ingress(0, image0, "p_in0", kElements);
  EgressUnit egress(1, image1, "p_out0", kElements);
  for (unsigned n = 0; n < 10; ++n) {
    egress.start(1, n);
    ingress.start(frame_of(n), 1, n);
    ASSERT_EQ(egress.wait(), ERT_CMD_STATE_COMPLETED);
    ASSERT_EQ(ingress.wait(), ERT_CMD_STATE_COMPLETED);
    const auto middle = kernels::reference::run(adding_program(first), {frame_of(n)}).front();
    EXPECT_EQ(egress.frame(), kernels::reference::run(adding_program(second), {middle}).front());
  }
}

TEST_F(EmulatedRtl, ReportsADeadlockThroughTheSupervisorKernelAndContinues) {
  HandMade made;
  made.stuck = true;
  const auto image = load(2, image_of(made, "stuck", kHostToHost));
  Control control(2, image);
  control.epoch(1);
  xrt::kernel supervisor(device(2), image, "millrace_supervisor:{supervisor}");
  xrt::bo report(device(2), 4096, static_cast<xrt::memory_group>(supervisor.group_id(0)));
  auto watch = supervisor(report);
  IngressUnit ingress(2, image, "p_in0", kElements);
  ingress.start(frame_of(1), 1, 0);
  ASSERT_EQ(ingress.wait(), ERT_CMD_STATE_COMPLETED);
  ASSERT_EQ(watch.wait(std::chrono::milliseconds(10'000)), ERT_CMD_STATE_COMPLETED);
  report.sync(XCL_BO_SYNC_BO_FROM_DEVICE);
  const auto fault = *report.map<abi::FaultReport*>();
  EXPECT_EQ(fault.code, abi::FaultCode::kInternal);
  EXPECT_NE(std::string(fault.detail).find("no beat moved"), std::string::npos) << fault.detail;
  control.epoch(2);
  EXPECT_EQ(control.read(abi::kRegEpoch), 2U);
}

TEST_F(EmulatedRtl, ANewEpochDropsTheFrameThatIsBeingSimulated) {
  HandMade made;
  made.pause = 60'000;  // clock cycles per output word
  const auto image = load(3, image_of(made, "slow", kHostToHost));
  Control control(3, image);
  control.epoch(1);
  IngressUnit ingress(3, image, "p_in0", kElements);
  EgressUnit egress(3, image, "p_out0", kElements);
  egress.start(1, 0);
  ingress.start(frame_of(1), 1, 0);
  ASSERT_EQ(ingress.wait(), ERT_CMD_STATE_COMPLETED);
  control.epoch(2);
  ASSERT_EQ(egress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(egress.trailer().status, abi::FrameStatus::kDropped);
  egress.start(2, 1);
  ingress.start(frame_of(2), 2, 1);
  ASSERT_EQ(egress.wait(std::chrono::milliseconds(60'000)), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(egress.trailer().status, abi::FrameStatus::kOk);
  EXPECT_EQ(egress.frame(), kernels::reference::run(adding_program(made), {frame_of(2)}).front());
}

TEST_F(EmulatedRtl, RefusesAnImageWithoutASimulation) {
  try {
    load(3, image_of(HandMade{}, "never built", kHostToHost, false));
    FAIL() << "loaded";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("--fidelity rtl"), std::string::npos) << error.what();
  }
}

TEST_F(EmulatedRtl, RefusesADamagedSimulation) {
  HandMade made;
  made.plus = 7;
  const auto image = image_of(made, "damaged", kHostToHost);
  const Cache cache = *Cache::open();
  const auto digest = plan::decode_emulation_data([&] {
                        XclbinParts parts(image);
                        return *parts.find(plan::kSectionEmulationData);
                      }())
                          ->record.content_digest;
  const auto entry = rtl::find_simulation(cache, digest, "p");
  ASSERT_TRUE(entry.ok());
  std::filesystem::resize_file(*entry / "simulation.so", 1000);
  EXPECT_THROW(load(3, image), std::exception);
  EXPECT_NO_THROW(load(3, image_of(made, "damaged", kHostToHost)));  // replaces the damaged file
}

}  // namespace
}  // namespace millrace::tests::test_emulated_rtl
