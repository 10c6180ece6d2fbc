// Tests compiler/synth with a script instead of Yosys. The script answers like Yosys 0.23, or fails, or is killed. The
// figures of the real Yosys are in tests/golden/synthesis.csv.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compiler/synth/partition.hpp"
#include "compiler/synth/yosys.hpp"
#include "runtime/base/file.hpp"

namespace millrace::compiler::synth::test_synth {
namespace {

namespace fs = std::filesystem;
using generators::Cost;

constexpr const char* kStatistics = R"(
=== all_instances ===

   Number of cells:                  1
     instance_0                      1

=== instance_0 ===

   Number of wires:                  4
   Number of cells:                 32
     CARRY4                          3
     DSP48E2                         4
     FDRE                           10
     FDSE                            1
     INV                             1
     LUT2                            2
     LUT6                            1
     RAM32M16                        2
     RAMB18E2                        3
     RAMB36E2                        5

=== instance_1 ===

   Number of cells:                  7
     LUT1                            7

   Estimated number of LCs:          9
)";

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::size_t entries(const fs::path& folder) {
  std::error_code none;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder, none), fs::directory_iterator()));
}

/// A temporary folder with a program `yosys`, which is the shell script `body`, and a cache.
class Stand {
 public:
  explicit Stand(const std::string& body) {
    write(folder_.path() / "yosys",
          "#!/bin/sh\n[ \"$1\" = -V ] && echo 'Yosys 0.23 (stand-in)' && exit 0\n" + body);
    ::chmod((folder_.path() / "yosys").c_str(), 0755);
    write(folder_.path() / "statistics", kStatistics);
    yosys_ = {folder_.path() / "yosys", "Yosys 0.23 (stand-in)"};
  }
  const fs::path& folder() const { return folder_.path(); }
  const Yosys& yosys() const { return yosys_; }
  Cache cache() const { return std::move(Cache::open(folder() / "cache")).value(); }
  std::size_t runs() const {
    std::ifstream file(folder() / "runs");
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }
  std::string counting() const { return "echo run >> " + (folder() / "runs").string() + "\n"; }
  void set_body(const std::string& body) { write(folder() / "yosys", "#!/bin/sh\n" + body); }

 private:
  TemporaryDirectory folder_{"millrace-synth-test"};
  Yosys yosys_;
};

const std::map<std::string, std::string> kLibrary = {
    {"mr_top.sv", "module mr_top; mr_part #(.N(2)) a (); endmodule  // like mr_other_thing\n"},
    {"mr_part.sv", "module mr_part; mr_leaf b (); endmodule\n"},
    {"mr_leaf.sv", "module mr_leaf; mr_handshake_check c (); endmodule\n"},
    {"mr_alone.sv", "module mr_alone; endmodule\n"},
    {"mr_handshake_check.sv", "module mr_handshake_check; endmodule\n"}};

SynthesisJob job(const std::string& module, std::int64_t n) {
  return {module, {{"N", n}}, {}, {}, {{module + ".sv", kLibrary.at(module + ".sv")}}, "xcu"};
}

TEST(Synth, CountsThePrimitivesOfOneModule) {
  const Result<Cost> cost = count_cells(kStatistics, "instance_0");
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(*cost, (Cost{.lut = 20, .lutram = 16, .ff = 11, .dsp = 4, .ramb18 = 3, .ramb36 = 5, .uram = 0}));
  EXPECT_EQ(count_cells(kStatistics, "instance_1")->lut, 7U);
  EXPECT_EQ(count_cells(kStatistics, "instance_2").error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(count_cells("", "instance_0").error().code(), ErrorCode::kCorrupt);
}

TEST(Synth, RefusesTruncatedStatistics) {
  const std::string text = kStatistics;
  const std::size_t from = text.find("=== instance_0 ==="), last = text.find("RAMB36E2"),
                    end = text.find('\n', last);
  for (std::size_t length = from; length < end; ++length) {
    const Result<Cost> cost = count_cells(text.substr(0, length), "instance_0");
    ASSERT_FALSE(cost.ok()) << text.substr(0, length);
    EXPECT_EQ(cost.error().code(), ErrorCode::kCorrupt);
  }
  EXPECT_TRUE(count_cells(text.substr(0, end), "instance_0").ok());
  EXPECT_EQ(count_cells(text.substr(0, last), "instance_0").error().message(),
            "what yosys wrote lists 27 of the 32 cells of 'instance_0'");
}

TEST(Synth, ReadsOnlyTheSourcesThatAModuleNeeds) {
  const auto sources = sources_of("mr_top", kLibrary);
  ASSERT_TRUE(sources.ok());
  std::string names;
  for (const auto& [name, text] : *sources) names += name + " ";
  EXPECT_EQ(names, "mr_leaf.sv mr_part.sv mr_top.sv ");
  EXPECT_EQ(sources_of("mr_missing", kLibrary).error().code(), ErrorCode::kInvalidInput);
}

TEST(Synth, RunsYosysOnceForEqualInstancesAndNeverForCachedOnes) {
  Stand stand("");
  stand.set_body(stand.counting() + "cp " + (stand.folder() / "statistics").string() + " cells.txt\n");
  const Cache cache = stand.cache();
  auto first = synthesise(stand.yosys(), cache, {job("mr_alone", 1), job("mr_alone", 2), job("mr_alone", 1)});
  ASSERT_TRUE(first.ok()) << first.error().message();
  EXPECT_EQ((*first)[0].dsp, 4U);
  EXPECT_EQ((*first)[1].lut, 7U);
  EXPECT_EQ((*first)[2], (*first)[0]);
  EXPECT_EQ(stand.runs(), 1U);
  const auto again = synthesise(stand.yosys(), cache, {job("mr_alone", 2)});
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ((*again)[0], (*first)[1]);
  EXPECT_EQ(stand.runs(), 1U);
  EXPECT_EQ(entries(cache.root() / "tmp"), 0U);
}

TEST(Synth, CacheKeyDependsOnlyOnTheInputsOfSynthesis) {
  const Yosys yosys{"yosys", "Yosys 0.23"};
  SynthesisJob one = job("mr_alone", 1);
  one.names = {{"WFILE", "conv_1.hex"}};
  one.memories = {{"conv_1.hex", "00\n"}, {"conv_1.hex.5", "01\n"}};
  SynthesisJob other = one;
  other.names = {{"WFILE", "conv_2.hex"}};
  other.memories = {{"conv_2.hex", "00\n"}, {"conv_2.hex.5", "01\n"}};
  EXPECT_EQ(key_of(yosys, one), key_of(yosys, other));
  other.memories["conv_2.hex"] = "02\n";
  EXPECT_NE(key_of(yosys, one), key_of(yosys, other));
  EXPECT_NE(key_of(yosys, one), key_of({"yosys", "Yosys 0.24"}, one));
  SynthesisJob plus = one;
  plus.family = "xcup";
  EXPECT_NE(key_of(yosys, one), key_of(yosys, plus));
  plus = one;
  plus.sources["mr_alone.sv"] += " ";
  EXPECT_NE(key_of(yosys, one), key_of(yosys, plus));
  plus = one;
  plus.parameters[0].second = -1;
  EXPECT_NE(key_of(yosys, one), key_of(yosys, plus));
}

TEST(Synth, WritesInstancesInValidSystemVerilog) {
  Stand stand("");
  stand.set_body("cp all_instances.sv " + (stand.folder() / "seen.sv").string() + "\ncp run.ys " +
                 (stand.folder() / "seen.ys").string() + "\nls > " + (stand.folder() / "seen.ls").string() +
                 "\ncp " + (stand.folder() / "statistics").string() + " cells.txt\n");
  SynthesisJob one = job("mr_alone", -128);
  one.parameters.emplace_back("OFFSET", std::int64_t{-1} << 40);
  one.names = {{"WFILE", "conv_1.hex"}};
  one.memories = {{"conv_1.hex", "00\n"}};
  ASSERT_TRUE(synthesise(stand.yosys(), stand.cache(), {one}).ok());
  const std::string wrapper = *read_text_file(stand.folder() / "seen.sv");
  EXPECT_NE(
      wrapper.find("mr_alone #(.N(-128), .OFFSET(-64'sd1099511627776), .WFILE(\"instance_0_f0\")) dut ();"),
      std::string::npos)
      << wrapper;
  EXPECT_NE(read_text_file(stand.folder() / "seen.ls")->find("instance_0_f0"), std::string::npos);
  EXPECT_NE(read_text_file(stand.folder() / "seen.ys")->find("synth_xilinx -family xcu -nosrl"),
            std::string::npos);
}

/// Expects that a run fails with this error and leaves nothing behind.
void expect_failure(const Stand& stand, const Cache& cache, ErrorCode code, const std::string& words) {
  const auto failed = synthesise(stand.yosys(), cache, {job("mr_alone", 1)});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), code) << failed.error().message();
  EXPECT_NE(failed.error().message().find(words), std::string::npos) << failed.error().message();
  EXPECT_EQ(entries(cache.root() / "synth"), 0U);
  EXPECT_EQ(entries(cache.root() / "tmp"), 0U);
  EXPECT_FALSE(cache.find("synth", key_of(stand.yosys(), job("mr_alone", 1))));
}

void expect_failure(const Stand& stand, ErrorCode code, const std::string& words) {
  expect_failure(stand, stand.cache(), code, words);
}

/// A file system of 64 kB, if this process is allowed to mount one.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path path) : path_(std::move(path)) {
    fs::create_directories(path_);
    mounted_ = ::mount("none", path_.c_str(), "tmpfs", 0, "size=64k,mode=0700") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

TEST(Synth, CachesNothingIfYosysIsKilled) {
  expect_failure(Stand("echo 'LUT6 3' > cells.txt; kill -9 $$\n"), ErrorCode::kUnavailable, "signal 9");
}

TEST(Synth, ReportsTheErrorOfYosys) {
  expect_failure(Stand("echo \"ERROR: Module 'mr_alone' does not parse\"; exit 1\n"), ErrorCode::kInternal,
                 "does not parse");
}

TEST(Synth, CachesNoTruncatedStatistics) {
  expect_failure(Stand("head -c 60 ../../../statistics > cells.txt\n"), ErrorCode::kCorrupt, "no cells");
  // If the disk fills up, Yosys 0.23 writes truncated statistics like these and exits with code 0.
  expect_failure(Stand("sed '/RAMB18E2/,$d' ../../../statistics > cells.txt\n"), ErrorCode::kCorrupt,
                 "24 of the 32 cells");
}

TEST(Synth, CachesNothingIfTheStatisticsOfOneInstanceAreTruncated) {
  const Stand stand("sed '/LUT1/d' ../../../statistics > cells.txt\n");
  const Cache cache = stand.cache();
  const auto failed = synthesise(stand.yosys(), cache, {job("mr_alone", 1), job("mr_alone", 2)});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code(), ErrorCode::kCorrupt);
  EXPECT_FALSE(cache.find("synth", key_of(stand.yosys(), job("mr_alone", 1))));
}

TEST(Synth, ReportsAFullDiskEvenThoughYosysDoesNot) {
  const Stand stand("sed '/RAMB18E2/,$d' ../../../../statistics > cells.txt\n");
  const SmallDisk disk(stand.folder() / "small");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
  const auto cache = Cache::open(disk.path() / "cache");
  ASSERT_TRUE(cache.ok()) << cache.error().message();
  expect_failure(stand, *cache, ErrorCode::kResourceExhausted, "is full");
}

/// The script kills the process that waits for it. The folder of the killed run remains until the next run.
TEST(Synth, RemovesTheFilesOfAKilledRun) {
  Stand stand("kill -9 $PPID; exec sleep 600\n");
  const Cache cache = stand.cache();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(synthesise(stand.yosys(), cache, {job("mr_alone", 1)}).ok() ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(entries(cache.root() / "synth"), 0U);
  EXPECT_EQ(entries(cache.root() / "tmp"), 1U);
  stand.set_body("cp ../../../statistics cells.txt\n");
  ASSERT_TRUE(synthesise(stand.yosys(), cache, {job("mr_alone", 1)}).ok());
  EXPECT_EQ(entries(cache.root() / "tmp"), 0U);
}

TEST(Synth, RefusesADeviceFamilyThatTheLibraryDoesNotSupport) {
  SynthesisJob one = job("mr_alone", 1);
  one.family = "xc7";
  EXPECT_EQ(synthesise(Stand("").yosys(), Stand("").cache(), {one}).error().code(), ErrorCode::kUnsupported);
}

TEST(Synth, ErrorSaysHowToInstallYosysWhenMissing) {
  const TemporaryDirectory empty("millrace-no-yosys");
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", empty.path().c_str(), 1);
  const auto found = Yosys::find();
  ::setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(exit_code(found.error().code()), 3);
  EXPECT_NE(found.error().message().find("tools/setup"), std::string::npos);
}

constexpr const char* kDesign = R"({"schema": 1, "partition": "p", "dataflow": "p_dataflow", "top": "p_top",
 "device": "ku060", "family": "xcu", "available": {"lut": 30, "ff": 1000, "dsp": 3, "bram36": 50},
 "instances": [{"name": "a", "module": "mr_alone", "block": "conv", "parameters": {"N": 5}}]})";
constexpr const char* kStructure = R"({"modules": {
 "p_dataflow": {"cells": {
   "a": {"type": "mr_alone", "parameters": {"N": "00000000000000000000000000000101", "WFILE": "a.hex"}},
   "b": {"type": "mr_alone", "parameters": {"N": "11111111111111111111111110000000"}}}},
 "p_top": {"cells": {
   "flow": {"type": "p_dataflow", "parameters": {}},
   "s": {"type": "mr_top", "parameters": {}},
   "$and$1": {"type": "$and", "parameters": {"Y_WIDTH": "00000000000000000000000000000011"}},
   "$procdff$2": {"type": "$dff", "parameters": {"WIDTH": "00000000000000000000000000000010"}}}}}})";

class SynthPartition : public testing::Test {
 protected:
  SynthPartition() : stand_("") {
    stand_.set_body("if [ \"$3\" = -p ]; then cp " + (stand_.folder() / "structure").string() +
                    " structure.json; else i=0; for m in 0 1 2 3; do sed s/instance_0/instance_$m/ " +
                    (stand_.folder() / "statistics").string() +
                    " | head -21 | tail -16; done > cells.txt; fi\n");
    write(stand_.folder() / "structure", kStructure);
    write(rtl() / "design.json", kDesign);
    write(rtl() / "p_dataflow.sv", "module p_dataflow; endmodule\n");
    write(rtl() / "p_top.sv", "module p_top; endmodule\n");
    write(rtl() / "a.hex", "00\n");
    for (const auto& [name, text] : kLibrary) write(rtl() / "library" / name, text);
  }
  fs::path rtl() const { return stand_.folder() / "rtl"; }
  std::string refusal() const {
    const auto read = read_partition(stand_.yosys(), rtl());
    return read.ok() ? "accepted"
                     : std::string(to_string(read.error().code())) + ": " + read.error().message();
  }
  Stand stand_;
};

TEST_F(SynthPartition, ReadsInstancesAtEveryLevelOfTheHierarchy) {
  const auto read = read_partition(stand_.yosys(), rtl());
  ASSERT_TRUE(read.ok()) << read.error().message();
  ASSERT_EQ(read->instances.size(), 3U);
  const EmittedInstance& a = read->instances[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.block, "conv");
  EXPECT_FALSE(a.shell);
  EXPECT_EQ(a.job.parameters, (generators::Parameters{{"N", 5}}));
  EXPECT_EQ(a.job.memories.at("a.hex"), "00\n");
  EXPECT_EQ(read->instances[1].job.parameters, (generators::Parameters{{"N", -128}}));
  EXPECT_TRUE(read->instances[2].shell);
  EXPECT_EQ(read->instances[2].job.sources.size(), 3U);
  EXPECT_EQ(read->glue, (Cost{.lut = 3, .ff = 2}));
}

TEST_F(SynthPartition, CostsAreSummedAndComparedWithTheDevice) {
  const auto read = read_partition(stand_.yosys(), rtl());
  ASSERT_TRUE(read.ok());
  std::vector<std::pair<std::size_t, std::size_t>> steps;
  SynthesisOptions options;
  options.progress = [&](std::size_t done, std::size_t of) { steps.emplace_back(done, of); };
  const auto costs =
      synthesise_partitions(stand_.yosys(), stand_.cache(), generators::Catalog(), {*read, *read}, options);
  ASSERT_TRUE(costs.ok()) << costs.error().message();
  ASSERT_EQ(costs->size(), 2U);
  EXPECT_EQ((*costs)[0].dataflow,
            (Cost{.lut = 40, .lutram = 32, .ff = 22, .dsp = 8, .ramb18 = 6, .ramb36 = 10}));
  EXPECT_EQ((*costs)[0].shell.lut, 20U + 3U);
  EXPECT_EQ(steps.front(), std::make_pair(std::size_t{0}, std::size_t{3}));
  EXPECT_EQ(steps.back(), std::make_pair(std::size_t{3}, std::size_t{3}));
  EXPECT_EQ(exceeded((*costs)[0]), (std::vector<std::string>{"40 LUT of 30", "8 DSP of 3"}));
}

TEST_F(SynthPartition, CostsOfEachRegionIncludingTheShellAreComparedWithItsResources) {
  // Block "a" uses 20 LUT in the second region. Block "b", the shell (20 LUT) and other logic of the top (3 LUT) are in
  // the first region.
  const auto over = [&](std::uint64_t first, std::uint64_t second) {
    const std::string head = R"({"schema": 1, "partition": "p", "dataflow": "p_dataflow", "top": "p_top",
 "device": "u280", "family": "xcu", "regions": [)",
                      rest = R"("lutram": 1000, "ff": 1000, "dsp": 50, "bram36": 50})";
    write(rtl() / "design.json", head + R"({"name": "SLR0", "lut": )" + std::to_string(first) + ", " + rest +
                                     R"(, {"name": "SLR1", "lut": )" + std::to_string(second) + ", " + rest +
                                     R"(], "instances": [{"name": "a", "module": "mr_alone", "block": "conv",
 "region": "SLR1", "parameters": {"N": 5}}]})");
    const auto read = read_partition(stand_.yosys(), rtl());
    EXPECT_TRUE(read.ok()) << read.error().message();
    if (!read.ok()) return std::vector<std::string>{"not read"};
    const auto costs = synthesise_partitions(stand_.yosys(), stand_.cache(), generators::Catalog(), {*read});
    EXPECT_TRUE(costs.ok()) << costs.error().message();
    return costs.ok() ? exceeded(costs->front()) : std::vector<std::string>{"not synthesised"};
  };
  EXPECT_EQ(over(43, 20), std::vector<std::string>());
  EXPECT_EQ(over(42, 20), (std::vector<std::string>{"63 LUT of 62 with its shell", "43 LUT of 42 in SLR0"}));
  EXPECT_EQ(over(42, 21), std::vector<std::string>{"43 LUT of 42 in SLR0"});
  EXPECT_EQ(over(44, 19), std::vector<std::string>{"20 LUT of 19 in SLR1"});
}

TEST_F(SynthPartition, WeightLoaderIsPartOfTheShell) {
  std::string structure = kStructure;
  const std::string top = R"("s": {"type": "mr_top", "parameters": {}},)";
  ASSERT_NE(structure.find(top), std::string::npos);
  structure.insert(structure.find(top), R"("parameters": {"type": "mr_parameters", "parameters": {
    "DATA_BYTES": "01000000", "BURST": "010000", "WORDS": "01101000", "HOPS": "011"}}, )");
  write(stand_.folder() / "structure", structure);
  write(rtl() / "library" / "mr_parameters.sv", "module mr_parameters; endmodule\n");
  const auto read = read_partition(stand_.yosys(), rtl());
  ASSERT_TRUE(read.ok()) << read.error().message();
  const auto catalog = generators::load_catalog();
  ASSERT_TRUE(catalog.ok());
  const auto costs = synthesise_partitions(stand_.yosys(), stand_.cache(), *catalog, {*read}, {});
  ASSERT_TRUE(costs.ok()) << costs.error().message();
  const auto expected = generators::cost(*catalog, "mr_parameters",
                                         {{"DATA_BYTES", 64}, {"BURST", 16}, {"WORDS", 104}, {"HOPS", 3}});
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  EXPECT_EQ((*costs)[0].shell_predicted, *expected);
  EXPECT_EQ((*costs)[0].shell.lut, 2 * 20U + 3U);
}

TEST_F(SynthPartition, MalformedFoldersAreRefused) {
  write(rtl() / "design.json", "{");
  EXPECT_NE(refusal().find("invalid_input"), std::string::npos);
  write(rtl() / "design.json", "[]");
  EXPECT_NE(refusal().find("not a JSON object"), std::string::npos);
  write(rtl() / "design.json", R"({"schema": 1, "partition": "p; exec rm"})");
  EXPECT_NE(refusal().find("'device'"), std::string::npos);
  write(
      rtl() / "design.json",
      R"({"schema": 1, "partition": "p", "device": "d", "dataflow": "p; shell touch x", "top": "t", "instances": []})");
  EXPECT_NE(refusal().find("no identifier"), std::string::npos);
  write(rtl() / "design.json",
        R"({"schema": 1, "partition": "p", "device": "d", "dataflow": "p_dataflow", "top": "p_top",
                                   "instances": []})");
  EXPECT_NE(refusal().find("--family"), std::string::npos);
  fs::remove(rtl() / "design.json");
  EXPECT_NE(refusal().find("not_found"), std::string::npos);
}

TEST_F(SynthPartition, FullDiskIsNotReportedAsAnErrorInThePartition) {
  const SmallDisk disk(stand_.folder() / "small");
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system needs root";
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", disk.path().c_str(), 1);
  const auto refused_by = [&](const std::string& body) {
    stand_.set_body(body);
    return refusal();
  };
  const std::string cut = refused_by("head -c 200 " + (stand_.folder() / "structure").string() +
                                     " > structure.json\n"),
                    none = refused_by("exit 0\n"), failed = refused_by("exit 1\n");
  kept.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  for (const std::string& said : {cut, none, failed}) {
    EXPECT_TRUE(said.starts_with("resource_exhausted: the disk under " + disk.path().string())) << said;
    EXPECT_NE(said.find("TMPDIR"), std::string::npos) << said;
  }
}

TEST_F(SynthPartition, AMissingModuleOrMemoryFileIsRefused) {
  fs::remove(rtl() / "a.hex");
  EXPECT_NE(refusal().find("'a.hex', which is not there"), std::string::npos) << refusal();
  write(rtl() / "a.hex", "00\n");
  fs::remove(rtl() / "library" / "mr_part.sv");
  EXPECT_EQ(refusal(),
            "accepted");  // mr_part, which only mr_top uses, is then no library module
  fs::remove(rtl() / "library" / "mr_top.sv");
  EXPECT_NE(refusal().find("'mr_top' that is not there"), std::string::npos) << refusal();
  write(rtl() / "library" / "mr_top.sv", "");
  write(stand_.folder() / "structure", R"({"modules": {}})");
  EXPECT_NE(refusal().find("no module 'p_top'"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace millrace::compiler::synth::test_synth
