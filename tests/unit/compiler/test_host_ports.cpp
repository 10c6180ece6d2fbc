// Tests the cost of ports to the host: the search's lower bound must never exceed the cost of the whole shell.
#include "compiler/planning/host_ports.hpp"

#include <gtest/gtest.h>

#include "compiler/explore/problem.hpp"
#include "compiler/generators/shell.hpp"

namespace millrace::compiler::test_host_ports {
namespace {

using explore::operator+;
using kernels::ElementType;

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};

const generators::Catalog& catalog() {
  static const generators::Catalog loaded = generators::load_catalog().value();
  return loaded;
}

/// Returns a program with a chain of two rescale blocks on vectors of 784 elements. "first" reads from the host, "last"
/// writes to the host.
kernels::Program two_blocks() {
  kernels::Program program;
  program.name = "two";
  for (const char* name : {"x", "between", "y"}) program.tensors.push_back({name, kInt8, {784}, {}, 0});
  program.inputs = {0};
  program.outputs = {2};
  for (std::uint32_t b = 0; b < 2; ++b) {
    kernels::Block block;
    block.name = b == 0 ? "first" : "last";
    block.inputs = {b};
    block.outputs = {b + 1};
    block.operation = kernels::Rescale{};
    program.blocks.push_back(std::move(block));
  }
  return program;
}

runtime::plan::Cluster cluster_of(const runtime::plan::Device& device, int cards) {
  runtime::plan::Cluster cluster;
  cluster.name = "c";
  cluster.devices.emplace("d", device);
  for (int i = 0; i < cards; ++i) cluster.cards.push_back({"fpga" + std::to_string(i), "d", ""});
  return cluster;
}

runtime::plan::Device device(std::uint64_t own_luts) {
  runtime::plan::Device out;
  out.name = "d";
  out.clock_mhz = 200;
  out.regions = {{"all", {1000000, 1000000, 1000000, 1000, 1000, 1000}, {}, "device"}};
  out.shell = {100000 + own_luts, 1000, 108000, 4, 215, 0};
  out.shell_of_platform = {100000, 0, 100000, 4, 200, 0};
  out.connectors = 2;
  return out;
}

generators::Candidate candidate(std::uint32_t lanes) {
  generators::Candidate out;
  out.input_lanes = {lanes};
  out.output_lanes = {lanes};
  return out;
}

/// Returns the design of a card. If `whole` is true, the card has both blocks; otherwise it is the first of two cards
/// and has only "first".
generators::Design design(std::uint32_t lanes, bool whole) {
  generators::Design out;
  out.partition = "part0";
  out.netlist.streams = {{"in0", lanes, 8, 784 / lanes}, {"out0", lanes, 8, 784 / lanes}};
  out.inputs = {{"in0", "x", kInt8, 0}};
  out.outputs = {{"out0", whole ? "y" : "between", kInt8, 1}};
  return out;
}

class HostPortCost : public ::testing::Test {
 protected:
  explore::Amounts least(const std::string& block, std::uint32_t lanes, std::uint64_t own_luts) {
    const auto cluster = cluster_of(device(own_luts), 1);
    const auto problem = explore::make_problem(program_, cluster, {});
    const auto ports = HostPorts::make(catalog(), program_, problem, cluster);
    EXPECT_TRUE(ports.ok());
    return ports->least(catalog(), block, candidate(lanes)).value();
  }
  explore::Amounts all(std::uint32_t lanes, std::uint64_t own_luts) {
    explore::Solution solution;
    solution.parts = {{false, 0, 1, {0, 1}}};
    solution.card = {0};
    const auto shell = shell_of(catalog(), {program_}, solution, 0, design(lanes, true), device(own_luts),
                                cluster_of(device(own_luts), 1));
    return explore::less(amounts_of(shell.value()), own_shell(device(own_luts)));
  }

  const kernels::Program program_ = two_blocks();
};

TEST_F(HostPortCost, PortsOfUsualWidthAddNoCostToTheDeviceShell) {
  EXPECT_EQ(least("first", 1, 6000), explore::Amounts{});
  EXPECT_EQ(least("last", 8, 6000), explore::Amounts{});
  EXPECT_EQ(all(8, 6000), explore::Amounts{});
}

TEST_F(HostPortCost, WidePortsCostAtMostAsMuchAsTheWholeShell) {
  // A host input port (mr_ingress) of 98 lanes uses 18,680 LUTs, as measured in tests/golden/synthesis.csv.
  EXPECT_NEAR(static_cast<double>(least("first", 98, 6000)[explore::kLut]), 18680 - 6000 + 1010, 1900);
  for (const std::uint64_t own : {0U, 500U, 3000U, 6000U, 20000U})
    for (const std::uint32_t lanes : {1U, 8U, 49U, 98U, 392U, 784U}) {
      const auto charged = least("first", lanes, own) + least("last", lanes, own);
      EXPECT_TRUE(explore::within(charged, all(lanes, own))) << own << " " << lanes;
    }
  EXPECT_GT(all(98, 6000)[explore::kLut], least("first", 98, 6000)[explore::kLut]);
}

TEST_F(HostPortCost, CostOfOurShellExcludesTheVendorsPlatform) {
  auto bare = device(6000);
  EXPECT_EQ(own_shell(bare)[explore::kLut], 6000U);
  EXPECT_EQ(own_shell(bare)[explore::kBram18], 30U);
  bare.shell_of_platform = {};
  EXPECT_EQ(own_shell(bare)[explore::kLut], 106000U);
}

TEST_F(HostPortCost, AnOutputToAnotherCardCostsALinkAndNoHostPort) {
  explore::Solution solution;
  solution.parts = {{false, 0, 1, {0}}, {false, 1, 1, {1}}};
  solution.card = {0, 1};
  const std::vector<kernels::Program> programs = {kernels::extract(program_, {0}, "part0"),
                                                  kernels::extract(program_, {1}, "part1")};
  const auto of = [&](const runtime::plan::Device& one) {
    return shell_of(catalog(), programs, solution, 0, design(8, false), one, cluster_of(one, 2)).value();
  };
  auto with_figures = device(6000);
  with_figures.link = {8000, 0, 12000, 0, 16, 0};
  const auto ours = of(device(6000)), theirs = of(with_figures);
  EXPECT_EQ(ours.ramb36, 1U);  // for the buffer of the sender
  EXPECT_EQ(theirs.ramb36, 0U);
  EXPECT_GT(ours.lut, theirs.lut + 2000);
  const auto alone = generators::shell_cost(catalog(), {{true, false, 8, 98, kInt8}}, 200, 2).value();
  EXPECT_EQ(theirs.lut, alone.lut);
}

TEST_F(HostPortCost, AnOutputWithTwoReadersOnTheHostCostsTwoPorts) {
  explore::Solution solution;
  solution.parts = {{false, 0, 1, {0, 1}}, {true, 0, 2, {}}, {true, 0, 2, {}}};
  solution.card = {0};
  kernels::Program reader = kernels::extract(program_, {0}, "host");
  reader.tensors[reader.inputs[0]].name = "y";
  reader.tensors[reader.outputs[0]].name = "z";
  const auto shell = [&](std::vector<kernels::Program> programs) {
    explore::Solution one = solution;
    one.parts.resize(programs.size());
    return shell_of(catalog(), programs, one, 0, design(8, true), device(6000), cluster_of(device(6000), 1))
        .value();
  };
  const auto port = generators::host_port_cost(catalog(), {false, false, 8, 98, kInt8}).value();
  const auto once = shell({program_, reader}), twice = shell({program_, reader, reader});
  EXPECT_NEAR(static_cast<double>(twice.lut), static_cast<double>(once.lut + port.lut), 3);
  EXPECT_EQ(twice.lutram, once.lutram + port.lutram);
}

}  // namespace
}  // namespace millrace::compiler::test_host_ports
