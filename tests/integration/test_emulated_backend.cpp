// Tests which libxrt_core a program loads, and the text that describes an emulated machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "emulated_images.hpp"
#include "runtime/base/file.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/emulator/topology.hpp"

namespace millrace::tests::test_emulated_backend {
namespace {

namespace emulator = runtime::emulator;

/// Selects a backend, prints the result on standard error and ends the process, because a process can select
/// a backend only once.
[[noreturn]] void select_and_exit(const runtime::plan::Cluster& cluster) {
  const auto status = emulator::select_backend(cluster);
  if (status.ok()) {
    std::fprintf(stderr, "XILINX_XRT=%s MILLRACE_CARD=%s MILLRACE_EMULATION=%s XCL_EMULATION_MODE=%s\n",
                 std::getenv("XILINX_XRT"), std::getenv("MILLRACE_CARD"), std::getenv("MILLRACE_EMULATION"),
                 std::getenv("XCL_EMULATION_MODE"));
    _exit(0);
  }
  std::fprintf(stderr, "%s\n", status.error().message().c_str());
  _exit(10 + static_cast<int>(status.error().code()));
}

constexpr auto code = [](ErrorCode c) { return testing::ExitedWithCode(10 + static_cast<int>(c)); };

TEST(EmulatedBackend, SetsTheEnvironmentVariablesOfXrtForAnEmulatedCluster) {
  setenv("XCL_EMULATION_MODE", "sw_emu", 1);
  EXPECT_EXIT(select_and_exit(test_cluster()), testing::ExitedWithCode(0),
              "XILINX_XRT=.*/lib/millrace/xrt MILLRACE_CARD=.*/bin/millrace-card "
              "MILLRACE_EMULATION=millrace-emulation 1;card fpga0 ku060 134217728;card fpga1.*;cable 0.0 "
              "1.0;cable 1.1 2.0;cable 0.1 2.1;.*XCL_EMULATION_MODE=.null.");
  unsetenv("XCL_EMULATION_MODE");
}

TEST(EmulatedBackend, AcceptsTheSameClusterAgainAndRefusesADifferentCluster) {
  EXPECT_EXIT(
      {
        if (!emulator::select_backend(test_cluster()).ok()) _exit(1);
        if (!emulator::select_backend(test_cluster()).ok()) _exit(2);
        auto real = test_cluster();
        real.emulated = false;
        if (emulator::select_backend(real).ok()) _exit(3);
        auto other = test_cluster();
        other.cards.pop_back();
        select_and_exit(other);
      },
      code(ErrorCode::kInvalidInput), "already runs another cluster");
}

TEST(EmulatedBackend, RequiresTheVendorsXrtForRealCards) {
  auto real = test_cluster();
  real.emulated = false;
  unsetenv("XILINX_XRT");
  EXPECT_EXIT(select_and_exit(real), code(ErrorCode::kEnvironment), "XILINX_XRT is not set");
  EXPECT_EXIT(
      {
        setenv("XILINX_XRT", "/nonexistent/xrt", 1);
        select_and_exit(real);
      },
      code(ErrorCode::kEnvironment), "XILINX_XRT points nowhere: /nonexistent/xrt/lib/libxrt_core.so.2");
  const TemporaryDirectory vendor("millrace-xrt");
  std::filesystem::create_directory(vendor.path() / "lib");
  ASSERT_TRUE(write_file_atomically(vendor.path() / "lib/libxrt_core.so.2", "the vendor's").ok());
  EXPECT_EXIT(
      {
        setenv("XILINX_XRT", vendor.path().c_str(), 1);
        const bool accepted = emulator::select_backend(real).ok();
        _exit(accepted && std::getenv("XILINX_XRT") == vendor.path() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(EmulatedBackend, ErrorNamesAMissingLibraryOrAnInvalidClusterOrOption) {
  EXPECT_EXIT(
      {
        setenv("MILLRACE_XRT_SHIM", "/nonexistent", 1);
        select_and_exit(test_cluster());
      },
      code(ErrorCode::kEnvironment), "/nonexistent/lib/libxrt_core.so.2");
  auto nowhere = test_cluster();
  nowhere.cables.push_back({"x", {"fpga0", 3}, {"fpga9", 0}, 1, 1});
  EXPECT_EXIT(select_and_exit(nowhere), code(ErrorCode::kInvalidInput), "fpga9");
  auto nameless = test_cluster();
  nameless.cards[0].name = "card with spaces; and more";
  nameless.cables.clear();
  EXPECT_EXIT(select_and_exit(nameless), code(ErrorCode::kInvalidInput), "card");
  EXPECT_EXIT(
      {
        setenv("MILLRACE_EMULATION_OPTIONS", "speed=11", 1);
        select_and_exit(test_cluster());
      },
      code(ErrorCode::kInvalidInput), "speed=11");
}

TEST(EmulatedBackend, AcceptsTheOptionMannersForEmulatedCardsOnly) {
  auto real = test_cluster();
  real.emulated = false;
  const auto refused =
      emulator::select_backend(real, emulator::Fidelity::kFunctional, 0, emulator::Manners::kHardware);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(refused.error().message().find("--manners"), std::string::npos) << refused.error().message();
}

TEST(EmulatedBackend, AllowsRtlFidelityForEmulatedCardsOnly) {
  auto real = test_cluster();
  real.emulated = false;
  const auto refused = emulator::select_backend(real, emulator::Fidelity::kRtl);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EXIT(
      {
        const bool ok = emulator::select_backend(test_cluster(), emulator::Fidelity::kRtl).ok();
        const bool told = std::string(std::getenv("MILLRACE_EMULATION")).find(" rtl=1") != std::string::npos;
        _exit(ok && told ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(EmulatedTopology, ParsingAPrintedTopologyGivesTheSameTopology) {
  emulator::Topology topology;
  topology.cards = {{"fpga0", "ku060", 1U << 30U}, {"a-b.c", "u250", 4096}};
  topology.cables = {{{0, 1}, {1, 63}}};
  topology.options.program_time = std::chrono::milliseconds(2500);
  topology.options.spin = std::chrono::microseconds(7);
  topology.options.rtl = true;
  for (const double pace : {0.0, 1.0, 2500.125}) {
    topology.options.pace = pace;
    topology.cables[0].gigabits_per_second = pace > 0 ? 10.3125 : 0;
    topology.cables[0].latency_ns = pace > 0 ? 510 : 0;
    const auto parsed = emulator::parse_topology(emulator::to_text(topology));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(*parsed, topology);
  }
}

TEST(EmulatedTopology, OptionMannersHardwareSetsTheDelaysOfHardwareUnlessTheTextGivesOthers) {
  using std::chrono::milliseconds;
  emulator::Topology::Options options;
  ASSERT_TRUE(emulator::parse_options("program_time=30 manners=hardware start_cost=1500", options).ok());
  EXPECT_EQ(options.manners, emulator::Manners::kHardware);
  EXPECT_EQ(options.program_time, milliseconds(30)) << "the order of the words does not matter";
  EXPECT_EQ(options.cable_time, milliseconds(1400));
  EXPECT_EQ(options.start_cost, std::chrono::nanoseconds(1500));
  emulator::Topology topology;
  topology.cards = {{"fpga0", "ku060", 1U << 30U}};
  topology.options = options;
  topology.options.cable_time = milliseconds(0);
  const auto parsed = emulator::parse_topology(emulator::to_text(topology));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(*parsed, topology);
}

TEST(EmulatedTopology, ExchangesPlugsAndMovesThemToEmptyConnectors) {
  emulator::Topology topology;
  topology.cards = {{"a", "ku060", 4096}, {"b", "ku060", 4096}};
  topology.cables = {{{0, 0}, {1, 0}}, {{0, 1}, {1, 1}}};
  ASSERT_TRUE(emulator::parse_options("swap=1.0/1.1 swap=0.0/0.5", topology.options).ok());
  ASSERT_TRUE(emulator::exchange_plugs(topology).ok());
  EXPECT_EQ(topology.cables[0].a, (emulator::Topology::End{0, 5}));
  EXPECT_EQ(topology.cables[0].b, (emulator::Topology::End{1, 1}));
  EXPECT_EQ(topology.cables[1].a, (emulator::Topology::End{0, 1}));
  EXPECT_EQ(topology.cables[1].b, (emulator::Topology::End{1, 0}));
  ASSERT_TRUE(emulator::parse_options("swap=2.0/0.0", topology.options).ok());
  const Status refused = emulator::exchange_plugs(topology);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("'2.0' names no card"), std::string::npos);
}

TEST(EmulatedTopology, RefusesMalformedText) {
  const std::string head = "millrace-emulation 1;card a ku060 4096;card b ku060 4096";
  ASSERT_TRUE(emulator::parse_topology(head).ok());
  const std::pair<std::string, std::string> cases[] = {
      {"", "begin with"},
      {"millrace-emulation 2;card a ku060 4096", "begin with"},
      {"millrace-emulation 1", "no card"},
      {head + ";card a ku060 4096", "two cards are called 'a'"},
      {head + ";card c ku060", "a card record must be"},
      {head + ";card c ku060 0", "memory"},
      {head + ";card c ku060 99999999999999999999", "a card record must be"},
      {head + ";card c ku060 999999999999999", "memory"},
      {head + ";cable 0.0 2.0", "names no card"},
      {head + ";cable 0.0 1.64", "connectors are"},
      {head + ";cable 0.0 0.0", "two cables on connector 0"},
      {head + ";cable 0.0 1.0;cable 1.1 0.0", "two cables on connector 0"},
      {head + ";cable 0.0", "is not a card, cable, udp, faults or options"},
      {head + ";cable 0 1", "CARD.CONNECTOR"},
      {head + ";cable 0.-1 1.0", "CARD.CONNECTOR"},
      {head + ";cable 0.0 1.0 10", "is not a card, cable, udp, faults or options"},
      {head + ";cable 0.0 1.0 0 500", "Gbit/s"},
      {head + ";cable 0.0 1.0 10 -1", "latency"},
      {head + ";cable 0.0 1.0 10 inf", "latency"},
      {head + ";cable 0.0 1.0 10 nan", "latency"},
      {head + ";cable 0.0 1.0 inf 500", "Gbit/s"},
      {head + ";cable 0.0 1.0;faults 0 2 0 0 0 0 0 0", "cable 0: loss: must be a probability"},
      {head + ";cable 0.0 1.0;faults 0 nan 0 0 0 0 0 0", "cable 0: loss: must be a probability"},
      {head + ";cable 0.0 1.0;faults 0 0 0 0 0.6 0 0 0", "bit_errors: must be a probability of 0 to 0.5"},
      {head + ";cable 0.0 1.0;faults 0 0 0 0 0 inf 0 0", "latency_ns: must be 0 to 1e10"},
      {head + ";cable 0.0 1.0;faults 0 0 0 0 0 0 -1 0", "gigabits_per_second: must be"},
      {head + ";cable 0.0 1.0;faults 0 0 0 0 0 0 inf 0", "gigabits_per_second: must be"},
      {head + ";cable 0.0 1.0;faults 0 0 0 0 0 0", "a faults record must be"},
      {head + ";options pace=0.5", "pace is a number from 1"},
      {head + ";options pace=1e7", "pace is a number from 1"},
      {head + ";options pace=x", "pace is a number from 1"},
      {head + ";options manners=polite", "manners is kind or hardware"},
      {head + ";options cable_time=x", "NAME=NUMBER"},
      {head + ";speed 3", "is not a card, cable, udp, faults or options"},
      {head + ";options speed=3", "unknown"},
      {head + ";options spin=-1", "NAME=NUMBER"},
      {head + ";options call_timeout=0", "zero"},
      {head + ";options program_time=99999999", "NAME=NUMBER"},
      {head + ";options swap=0.0/1.0", "only in MILLRACE_EMULATION_OPTIONS"},
      {head + ";options swap=0.0", "CARD.CONNECTOR"},
      {head + ";options swap=0.0/0.64", "connectors are 0 to 63"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = emulator::parse_topology(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.error().message().find(message), std::string::npos) << text << "\n"
                                                                         << parsed.error().message();
  }
}

}  // namespace
}  // namespace millrace::tests::test_emulated_backend
