// Tests runtime/rtl with hand-written SystemVerilog: building and caching simulations, running one partition,
// and running several partitions under one clock.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/rtl/build.hpp"
#include "runtime/rtl/executor.hpp"
#include "runtime/rtl/system.hpp"
#include "tests/support/rtl_folder.hpp"

namespace millrace::tests::test_rtl_simulation {
namespace {

namespace fs = std::filesystem;
namespace rtl = runtime::rtl;
using Bytes = std::vector<std::byte>;

/// Returns the program that a HandMade partition computes: a lookup table that adds a constant.
kernels::Program program_of(const HandMade& made) {
  const kernels::ElementType type{kernels::ElementType::Kind::kUnsigned, 8};
  kernels::Program program;
  program.name = made.partition;
  program.tensors = {{"x", type, {1, made.beats, made.lanes}, {}, 0},
                     {"y", type, {1, made.beats, made.lanes}, {}, 0}};
  program.inputs = {0};
  program.outputs = {1};
  kernels::Lookup lookup;
  for (std::uint32_t i = 0; i < 256; ++i)
    lookup.table.push_back(static_cast<std::int16_t>((i + made.plus) % 256));
  program.blocks = {{"add", {}, {0}, {1}, lookup}};
  return program;
}

Bytes frame_of(const HandMade& made, unsigned seed) {
  Bytes frame(std::size_t{made.lanes} * made.beats);
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::byte>(seed * 37 + i * 11);
  return frame;
}

class RtlSimulation : public testing::Test {
 protected:
  void SetUp() override {
    auto tools = rtl::Toolchain::find();
    ASSERT_TRUE(tools.ok()) << tools.error().message();
    tools_ = *tools;
  }
  Cache cache() const { return *Cache::open(shared_simulation_cache()); }
  Result<fs::path> build(const Cache& cache, const HandMade& made) {
    write_rtl_folder(directory_.path(), made);
    return build_again(cache, made.partition);
  }
  Result<fs::path> build_again(const Cache& cache, const std::string& partition) {
    MILLRACE_ASSIGN(const rtl::Source source, rtl::read_source(directory_.path(), partition));
    rtl::BuildOptions options;
    options.progress = [this](const std::string& line) { lines_.push_back(line); };
    return rtl::build_simulation(cache, tools_, source, options);
  }
  std::unique_ptr<rtl::Simulation> open(const HandMade& made, std::uint64_t seed = 1) {
    const auto entry = build(cache(), made);
    if (!entry.ok()) throw std::runtime_error(entry.error().message());
    auto simulation = rtl::Simulation::open(*entry, seed);
    if (!simulation.ok()) throw std::runtime_error(simulation.error().message());
    return std::move(*simulation);
  }

  TemporaryDirectory directory_{"millrace-rtl"};
  rtl::Toolchain tools_;
  std::vector<std::string> lines_;
};

TEST_F(RtlSimulation, ASinglePartitionComputesItsProgramInThePredictedCycles) {
  HandMade made;
  made.pause = 3;
  const auto program = program_of(made);
  auto simulation = open(made, 7);
  ASSERT_TRUE(rtl::check_ports(simulation->design(), program).ok());
  const rtl::Cycles predicted = simulation->design().predicted;
  rtl::Executor executor(std::move(simulation), program);
  for (unsigned n = 0; n < 5; ++n) {
    const Bytes in = frame_of(made, n);
    const std::byte* from = in.data();
    executor.start({&from, 1});
    while (executor.advance(3) == rtl::Executor::State::kRunning) {
    }
    Bytes out(in.size());
    std::byte* to = out.data();
    executor.read({&to, 1});
    EXPECT_EQ(out, kernels::reference::run(program, {in}).front()) << "frame " << n;
    EXPECT_NEAR(static_cast<double>(executor.cycles()), static_cast<double>(predicted.latency), 2.0);
  }
}

TEST_F(RtlSimulation, DeadlockErrorNamesTheWaitingStream) {
  HandMade made;
  made.stuck = true;
  rtl::Executor executor(open(made), program_of(made));
  const Bytes in = frame_of(made, 1);
  const std::byte* from = in.data();
  executor.start({&from, 1});
  EXPECT_EQ(executor.advance(1'000'000), rtl::Executor::State::kStuck);
  EXPECT_NE(executor.fault().find("hop (not taken)"), std::string::npos) << executor.fault();
}

TEST_F(RtlSimulation, AFailedAssertionIsReportedAsAFaultAndPrintsNothing) {
  HandMade made;
  made.assertion = "taken != 16'd5";
  rtl::Executor executor(open(made), program_of(made));
  const Bytes in = frame_of(made, 1);
  const std::byte* from = in.data();
  testing::internal::CaptureStdout();
  executor.start({&from, 1});
  const auto state = executor.advance(1'000'000);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(state, rtl::Executor::State::kStuck);
  EXPECT_NE(executor.fault().find("made_to_hold"), std::string::npos) << executor.fault();
}

/// Hardware without its constants computes wrong numbers, so a simulation must not go on without them.
TEST_F(RtlSimulation, AMissingMemoryFileIsAnError) {
  const HandMade made;
  const fs::path folder = directory_.path() / "rtl" / made.partition;
  write_rtl_folder(directory_.path(), made);
  fs::remove(folder / "plus.hex");
  sign_rtl_folder(folder);
  const auto entry = build_again(cache(), made.partition);
  ASSERT_TRUE(entry.ok()) << entry.error().message();
  const auto simulation = rtl::Simulation::open(*entry, 1);
  ASSERT_FALSE(simulation.ok());
  EXPECT_EQ(simulation.error().code(), ErrorCode::kInternal);
  EXPECT_NE(simulation.error().message().find("'plus.hex': $readmem file not found"), std::string::npos)
      << simulation.error().message();
}

TEST_F(RtlSimulation, PortsThatDifferFromThoseOfTheProgramAreRefused) {
  HandMade made;
  const auto simulation = open(made);
  HandMade other = made;
  other.lanes = 4;
  const auto status = rtl::check_ports(simulation->design(), program_of(other));
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("'in0'"), std::string::npos) << status.error().message();
}

/// A chain of simulated partitions. run() sends frames to the first partition and collects the output frames
/// of each partition.
struct Row {
  rtl::System system;
  std::vector<HandMade> parts;
  std::vector<std::vector<Bytes>> frames;  // output frames of each partition
  Status run(std::uint64_t count) {
    frames.resize(parts.size());
    for (std::uint64_t n = 0; n < count; ++n)
      system.feed({0, 0}, frame_of(parts[0], static_cast<unsigned>(n)));
    return system.run(count, [&](rtl::System::End end, std::uint64_t, const Bytes& frame) {
      frames[end.partition].push_back(frame);
    });
  }
};

void expect_right(const Row& row, std::uint64_t count) {
  ASSERT_FALSE(row.system.standstill().has_value()) << row.system.standstill()->message;
  for (std::uint64_t n = 0; n < count; ++n) {
    Bytes expected = frame_of(row.parts[0], static_cast<unsigned>(n));
    for (std::size_t p = 0; p < row.parts.size(); ++p) {
      expected = kernels::reference::run(program_of(row.parts[p]), {expected}).front();
      EXPECT_EQ(row.frames[p].at(n), expected) << "partition " << p << " frame " << n;
    }
  }
}

TEST_F(RtlSimulation, LinkedPartitionsUnderOneClockEqualTheReference) {
  for (const double stall : {0.0, 0.3, 0.9}) {
    Row row{rtl::System({stall, 5}), {}, {}};
    const std::uint32_t lanes[3] = {2, 1, 4};
    for (std::uint32_t p = 0; p < 3; ++p) {
      HandMade made;
      made.lanes = lanes[p];
      made.beats = 16 / lanes[p];
      row.system.add_partition("part" + std::to_string(p), open(made, p), 100);
      row.parts.push_back(made);
    }
    for (std::size_t p = 0; p < 2; ++p) {
      const auto cable = row.system.add_cable("cable" + std::to_string(p), 10, 500);
      // Packets of this size do not end where a word or a frame ends.
      row.system.add_channel("c", {p, 0}, {p + 1, 0}, cable, {7, 3});
    }
    ASSERT_TRUE(row.run(9).ok());
    expect_right(row, 9);
    EXPECT_EQ(row.system.channels().at(0).bits, 9U * 16 * 8);
    EXPECT_EQ(row.system.channels().at(0).packets, 9U * 3);
  }
}

TEST_F(RtlSimulation, TheSlowestPartitionOrCableSetsTheInterval) {
  const auto interval = [&](std::uint32_t pause, double gigabits, double clock) {
    Row row{rtl::System({0, 1}), {}, {}};
    for (std::uint32_t p = 0; p < 2; ++p) {
      HandMade made;
      made.pause = p == 1 ? pause : 0;
      row.system.add_partition(made.partition, open(made), p == 0 ? 100 : clock);
      row.parts.push_back(made);
    }
    row.system.add_channel("c", {0, 0}, {1, 0}, row.system.add_cable("cable", gigabits, 100), {16, 4});
    EXPECT_TRUE(row.run(12).ok());
    expect_right(row, 12);
    const auto& out = row.system.output_passages({1, 0});
    return static_cast<double>(out[11].last - out[6].last) / 5;
  };
  EXPECT_DOUBLE_EQ(interval(0, 100, 100), 8);   // the words of a frame
  EXPECT_DOUBLE_EQ(interval(3, 100, 100), 32);  // the pauses of the second partition
  EXPECT_NEAR(interval(0, 0.8, 100), 56, 0.5);  // the cable: 16 + 40 bytes at one byte per cycle
  EXPECT_NEAR(interval(3, 100, 50), 64, 0.5);   // the slower clock of the second partition
}

TEST_F(RtlSimulation, DeadlockErrorOfSeveralPartitionsNamesTheirWaitingStreams) {
  Row row{rtl::System({0, 1}), {}, {}};
  for (std::uint32_t p = 0; p < 2; ++p) {
    HandMade made;
    made.stuck = p == 1;
    row.system.add_partition("part" + std::to_string(p), open(made), 100);
    row.parts.push_back(made);
  }
  row.system.add_channel("c", {0, 0}, {1, 0}, row.system.add_cable("cable", 10, 0), {8, 2});
  ASSERT_TRUE(row.run(4).ok());
  ASSERT_TRUE(row.system.standstill().has_value());
  EXPECT_EQ(row.system.standstill()->streams, (std::vector<std::string>{"part0.hop", "part1.hop"}));
}

TEST_F(RtlSimulation, SameSeedGivesTheSameSimulation) {
  const auto cycles = [&](std::uint64_t seed) {
    Row row{rtl::System({0.5, seed}), {}, {}};
    row.system.add_partition("part0", open(HandMade{}), 100);
    row.parts.push_back(HandMade{});
    EXPECT_TRUE(row.run(20).ok());
    return row.system.cycles();
  };
  EXPECT_EQ(cycles(3), cycles(3));
  EXPECT_NE(cycles(3), cycles(4));
}

TEST(RtlDesign, RefusesMissingAndImpossibleKeysByName) {
  const TemporaryDirectory directory("millrace-design");
  write_rtl_folder(directory.path(), HandMade{});
  const std::string good = read_text_file(directory.path() / "rtl" / "part0" / "design.json").value();
  ASSERT_TRUE(rtl::parse_design(good).ok());
  const auto expect_refused = [&](const std::string& from, const std::string& to, const std::string& says) {
    std::string text = good;
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto design = rtl::parse_design(text);
    ASSERT_FALSE(design.ok()) << to;
    EXPECT_NE(design.error().message().find(says), std::string::npos) << design.error().message();
  };
  expect_refused("\"schema\": 1", "\"schema\": 2", "schema 2");
  expect_refused("\"schema\": 1,", "", "schema");
  expect_refused("\"part0_dataflow\"", "\"a b; $system(1)\"", "dataflow");
  expect_refused("\"in0\"", "\"in7\"", "inputs[0].port");
  expect_refused("\"unsigned\"", "\"complex\"", "kind");
  expect_refused("\"lanes\": 2", "\"lanes\": 0", "inputs[0].lanes");
  expect_refused("\"bits\": 8", "\"bits\": 1e99", "inputs[0].bits");
  expect_refused("\"bits\": 8", "\"bits\": -8", "inputs[0].bits");
  expect_refused("\"beats\": 8", "\"beats\": 99999999999999999999", "inputs[0].beats");
  expect_refused("\"lanes\": 2", "\"lanes\": 1000000", "inputs[0].lanes");
  expect_refused("\"hop_fifo\"", "\"hop_fifo.m_data\"", "streams[0].fifo");
  expect_refused("\"depth\": 4", "\"depth\": true", "streams[0].depth");
  expect_refused("\"interval_cycles\": 8", "\"interval_cycles\": 0", "predicted.interval_cycles");
  expect_refused("\"outputs\": [", "\"outputs\": [], \"x\": [", "outputs");
  for (std::size_t length = 0; length + 2 < good.size(); length += 7)
    EXPECT_FALSE(rtl::parse_design(std::string_view(good).substr(0, length)).ok()) << length;
  EXPECT_FALSE(rtl::parse_design(std::string(100'000, '[')).ok());
}

TEST_F(RtlSimulation, TheCacheReusesABuildOnlyForTheSameSystemVerilog) {
  HandMade made;
  const auto first = build(cache(), made);
  ASSERT_TRUE(first.ok()) << first.error().message();
  lines_.clear();
  EXPECT_EQ(*build(cache(), made), *first);
  EXPECT_TRUE(lines_.empty());
  made.plus = 99;
  EXPECT_NE(*build(cache(), made), *first);
}

TEST_F(RtlSimulation, AlteredSystemVerilogIsRefusedAsCorrupt) {
  const HandMade made;
  const std::vector<std::function<void(const fs::path&)>> alterations = {
      [](const fs::path& folder) { std::ofstream(folder / "part0_dataflow.sv", std::ios::app) << " "; },
      [](const fs::path& folder) { std::ofstream(folder / "plus.hex") << "4\n"; },
      [](const fs::path& folder) { std::ofstream(folder / "library" / "mr_more.sv") << "\n"; },
      [](const fs::path& folder) { fs::remove(folder / "library" / "mr_fifo.sv"); },
      [](const fs::path& folder) { fs::create_symlink("/etc/passwd", folder / "link.hex"); },
      [](const fs::path& folder) { std::ofstream(folder / "design.json") << "{"; },
  };
  for (const auto& alter : alterations) {
    fs::remove_all(directory_.path() / "rtl");
    write_rtl_folder(directory_.path(), made);
    alter(directory_.path() / "rtl" / "part0");
    const auto entry = build_again(cache(), "part0");
    ASSERT_FALSE(entry.ok());
    EXPECT_EQ(entry.error().code(), ErrorCode::kCorrupt) << entry.error().message();
    EXPECT_NE(entry.error().message().find("rtl/part0"), std::string::npos) << entry.error().message();
  }
  const auto none = build_again(cache(), "part7");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), ErrorCode::kNotFound);
}

TEST_F(RtlSimulation, InvalidSystemVerilogIsAnInternalErrorAndLeavesNoFiles) {
  const Cache fresh = *Cache::open(directory_.path() / "cache");
  write_rtl_folder(directory_.path(), HandMade{});
  const fs::path folder = directory_.path() / "rtl" / "part0";
  std::ofstream(folder / "part0_dataflow.sv") << "module part0_dataflow (;\n";
  sign_rtl_folder(folder);
  // A build first compiles Verilator's runtime. Save this time by copying the runtime from the shared cache.
  fs::create_directory(fresh.root() / "verilator");
  ASSERT_TRUE(build(cache(), HandMade{.plus = 99}).ok());
  fs::copy(cache().root() / "verilator", fresh.root() / "verilator", fs::copy_options::recursive);
  write_rtl_folder(directory_.path(), HandMade{});
  std::ofstream(folder / "part0_dataflow.sv") << "module part0_dataflow (;\n";
  sign_rtl_folder(folder);
  const auto entry = build_again(fresh, "part0");
  ASSERT_FALSE(entry.ok());
  EXPECT_EQ(entry.error().code(), ErrorCode::kInternal);
  EXPECT_NE(entry.error().message().find("part0_dataflow.sv"), std::string::npos) << entry.error().message();
  EXPECT_FALSE(fs::exists(fresh.root() / "simulation") && !fs::is_empty(fresh.root() / "simulation"));
  EXPECT_TRUE(fs::is_empty(fresh.root() / "tmp"));
}

TEST_F(RtlSimulation, AKilledCompilerOrAFullDiskIsAnEnvironmentError) {
  const Cache fresh = *Cache::open(directory_.path() / "cache");
  const auto with_compiler = [&](const std::string& script) {
    const fs::path fake = directory_.path() / "g++";
    std::ofstream(fake) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(fake, fs::perms::owner_all);
    const fs::path real = tools_.compiler;
    tools_.compiler = fake;
    const auto entry = build(fresh, HandMade{});
    tools_.compiler = real;
    return entry;
  };
  const auto killed = with_compiler("kill -9 $$");
  ASSERT_FALSE(killed.ok());
  EXPECT_EQ(killed.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(killed.error().message().find("signal 9"), std::string::npos) << killed.error().message();
  const auto full = with_compiler("echo 'error: No space left on device' >&2; exit 1");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), ErrorCode::kResourceExhausted);
  EXPECT_NE(full.error().message().find("disk is full"), std::string::npos) << full.error().message();
  EXPECT_TRUE(fs::is_empty(fresh.root() / "tmp"));
  EXPECT_FALSE(fs::exists(fresh.root() / "verilator") && !fs::is_empty(fresh.root() / "verilator"));
}

TEST_F(RtlSimulation, MissingToolsAreNamedWithTheRemedy) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", directory_.path().c_str(), 1);
  const auto tools = rtl::Toolchain::find();
  std::ofstream(directory_.path() / "verilator") << "#!/bin/sh\necho Verilator 4.106 2020\n";
  fs::permissions(directory_.path() / "verilator", fs::perms::owner_all);
  fs::create_symlink("/bin/true", directory_.path() / "g++");
  const auto old = rtl::Toolchain::find();
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(tools.ok());
  EXPECT_EQ(tools.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(tools.error().message().find("verilator"), std::string::npos);
  EXPECT_NE(tools.error().message().find("tools/setup"), std::string::npos);
  ASSERT_FALSE(old.ok());
  EXPECT_EQ(old.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(old.error().message().find("Verilator 5"), std::string::npos) << old.error().message();
}

}  // namespace
}  // namespace millrace::tests::test_rtl_simulation
