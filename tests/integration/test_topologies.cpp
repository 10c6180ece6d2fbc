// Tests nets over several topologies of cards: each is compiled from its ONNX file, verified and served on emulated
// cards, and every answer must equal the reference's answer of the whole model. For each topology, a wrong byte on a
// link must change the answer, so that a faulty link would be noticed.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "faulty_link.hpp"
#include "runtime/base/file.hpp"
#include "served_model.hpp"
#include "small_nets.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests::test_topologies {
namespace {

namespace fs = std::filesystem;

/// A topology: how many cards, which cards have a cable, and how the net is put on them.
struct Topology {
  std::string name;
  std::uint32_t cards = 0;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> cables;
  SmallNet (*net)() = nullptr;
  std::vector<std::string> options;  // of `millrace compile`
  std::size_t links = 0;             // channels over cables in one replica
  bool host_between = false;         // the host computes between the cards
};
std::ostream& operator<<(std::ostream& out, const Topology& topology) {
  return out << topology.name;
}

using Cables = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

SmallNet dense_row() {
  return dense_net({32, 48, 40, 32});
}

const Topology kTopologies[] = {
    {"Chain", 3, Cables{{0, 1}, {1, 2}}, dense_row, {"--partitions", "3"}, 2},
    // The skip connection uses the cable that closes the ring.
    {"Ring", 4, Cables{{0, 1}, {1, 2}, {2, 3}, {3, 0}}, residual_net, {"--partitions", "4"}, 0},
    // There is no cable for the skip connection, so the cards in between forward its tensor.
    {"ForkAndJoinOverAChain", 3, Cables{{0, 1}, {1, 2}}, residual_net, {"--partitions", "3"}, 0},
    // Both branches have a cable of their own.
    {"ForkAndJoinOverATriangle", 3, Cables{{0, 1}, {1, 2}, {0, 2}}, residual_net, {"--partitions", "3"}, 0},
    {"SplitLayer", 3, Cables{{0, 1}, {1, 2}}, dense_row, {"--partitions", "3", "--split", "dense2=2"}, 0},
    {"TwoReplicas", 4, Cables{{0, 1}, {2, 3}}, dense_row, {"--partitions", "2", "--replicas", "2"}, 1},
    {"HostBetweenTwoCards", 2, Cables{{0, 1}}, host_between_net, {"--partitions", "2"}, 0, true},
    {"HostBetweenTwoCardsWithoutACable", 2, Cables{}, host_between_net, {"--partitions", "2"}, 0, true},
};

class Topologies : public testing::TestWithParam<Topology> {
 protected:
  fs::path cluster() const {
    fs::create_directories(directory_.path() / "clusters");
    fs::create_directory_symlink(fs::path(tests::source_dir()) / "configs/devices",
                                 directory_.path() / "devices");
    const fs::path file = directory_.path() / "clusters/topology.yaml";
    std::ofstream out(file);
    out << "schema: 1\nemulated: true\ncards:\n";
    for (std::uint32_t i = 0; i < GetParam().cards; ++i)
      out << "  - {name: fpga" << i << ", device: ku060}\n";
    out << "cables:" << (GetParam().cables.empty() ? " []\n" : "\n");
    std::vector<std::uint32_t> used(GetParam().cards, 0);
    for (const auto& [a, b] : GetParam().cables) {
      out << "  - {a: {card: fpga" << a << ", connector: " << used[a]++ << "}, b: {card: fpga" << b
          << ", connector: " << used[b]++ << "}, gigabits_per_second: 10, latency_ns: 500}\n";
    }
    return file;
  }

  TemporaryDirectory directory_{"millrace-topologies"};
};

TEST_P(Topologies, OutputsEqualTheReferenceAndAWrongByteOnAnyLinkChangesThem) {
  const Topology& topology = GetParam();
  const SmallNet net = topology.net();
  const fs::path onnx = directory_.path() / (net.name + ".onnx"),
                 deployment = directory_.path() / "deployment";
  std::ofstream(onnx, std::ios::binary) << net.onnx;
  const fs::path file = cluster();
  const Outcome compiled = compile_model(onnx, file, deployment, topology.options);
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  expect_verified(deployment, {"--cluster", file.string()});
  expect_served(deployment, program_of(onnx), {"--cluster", file.string()});

  const FaultyLink faulty(deployment);
  const auto links = faulty.channels(!topology.host_between);
  if (topology.links > 0) {
    EXPECT_EQ(links.size(), topology.links);
  }
  EXPECT_FALSE(links.empty());
  for (const auto link : links) {
    constexpr std::uint32_t kFrames = 100, kSeed = 20;
    EXPECT_GE(faulty.frames_that_change(link, kFrames, kSeed), 95U) << faulty.name_of(link);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Topologies, testing::ValuesIn(kTopologies),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace millrace::tests::test_topologies
