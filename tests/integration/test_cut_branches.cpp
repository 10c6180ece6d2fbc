// Tests programs whose branches, skip connections and layers are cut between several cards. A tensor for a distant card
// uses a cable of its own or, if there is none, passes through the cards in between. The emulated cards' outputs must
// equal, byte for byte, the reference's outputs of the uncut program.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "compiler/planning/partitions.hpp"
#include "compiler/planning/split_channels.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "tests/integration/pipeline_status.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/programs.hpp"

namespace millrace::tests::test_cut_branches {
namespace {

using namespace runtime;
namespace explore = compiler::explore;

class Backend : public testing::Environment {
  void SetUp() override {
    log::configure(log::Level::kOff, false);
    ASSERT_TRUE(emulator::select_backend(emulated_ring(4)).ok());
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

/// Returns emulated_ring(4) without the cable that closes the ring.
plan::Cluster emulated_row() {
  plan::Cluster cluster = emulated_ring(4);
  cluster.cables.pop_back();
  return cluster;
}

std::vector<std::byte> random_floats(std::uint64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-40.0F, 40.0F);
  std::vector<std::byte> bytes(count * sizeof(float));
  for (std::uint64_t i = 0; i < count; ++i) {
    const float x = value(random);
    std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
  }
  return bytes;
}

class CutBranches : public testing::Test {
 protected:
  /// Cuts the program so that card i begins with the block `first_of_card[i]`; every other block runs on the
  /// same card as the block before it. Each block has a single implementation that costs nothing, because the
  /// tests are only about which card runs which block.
  void cut(const kernels::Program& program, const plan::Cluster& cluster,
           const std::vector<std::string>& first_of_card) {
    program_ = program;
    explore::Problem problem =
        explore::make_problem(program, cluster, static_cast<std::uint32_t>(first_of_card.size()));
    explore::Choice choice;
    std::uint32_t place = 0;
    for (auto& operation : problem.operations) {
      if (!operation.host) operation.implementations.resize(1);
      for (std::uint32_t card = 1; card < first_of_card.size(); ++card)
        if (operation.name == first_of_card[card]) place = card;
      choice.place.push_back(place);
      choice.region.push_back(0);
      choice.implementation.push_back(0);
    }
    for (std::uint32_t card = 0; card < first_of_card.size(); ++card) choice.card.push_back(card);
    auto solution = explore::solution_of(problem, choice);
    ASSERT_TRUE(solution.ok()) << solution.error().message();
    ASSERT_EQ(explore::verify(problem, *solution), "");
    compiler::insert_relays(program_, *solution);
    deployment_ = deploy_as(program_, *solution, cluster, directory_.path() / "deployment");
    cluster_ = cluster;
  }
  /// Returns the number of relays, which are blocks that only forward a tensor.
  std::size_t relays() const {
    return static_cast<std::size_t>(
        std::count_if(program_.blocks.begin(), program_.blocks.end(),
                      [](const auto& block) { return block.name.starts_with("relay_"); }));
  }
  void expect_bytes_of(const kernels::Program& whole, std::size_t cards, std::size_t links) {
    const auto opened = pipeline::Dispatcher::open(deployment_, cluster_, {});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    for (std::uint32_t seed = 0; seed < 40; ++seed) {
      const auto in = random_floats(8 * 8 * 2, seed);
      std::vector<std::byte> out((*opened)->deployment().model.outputs[0].bytes());
      pipeline::Frame frame;
      frame.inputs.emplace_back(in);
      frame.outputs.emplace_back(out);
      const Status inferred = (*opened)->infer(frame);
      ASSERT_TRUE(inferred.ok()) << inferred.error().message();
      ASSERT_EQ(out, kernels::reference::run(whole, {in}).front()) << "seed " << seed;
    }
    const auto status = status_when(
        **opened, [](const auto& card) { return card.frames == 40; },
        [](const auto& link) { return link.bytes > 0; });
    EXPECT_EQ(status.cards.size(), cards);
    for (const auto& card : status.cards) EXPECT_EQ(card.frames, 40U) << card.card;
    EXPECT_EQ(status.links.size(), links);
    for (const auto& link : status.links) EXPECT_GT(link.bytes, 0U) << link.channel;
  }

  TemporaryDirectory directory_{"millrace-cut"};
  kernels::Program program_;
  plan::Cluster cluster_;
  std::shared_ptr<const plan::LoadedDeployment> deployment_;
};

TEST_F(CutBranches, SkipConnectionUsesTheDirectCableOfARing) {
  const auto whole = branch_program();
  cut(whole, emulated_ring(4), {"conv0", "conv1", "conv2", "conv3"});
  EXPECT_EQ(relays(), 0U) << "conv0 and conv3 stand at the cable that closes the ring";
  expect_bytes_of(whole, 4, 4);
}

TEST_F(CutBranches, IntermediateCardsRelayATensorIfNoDirectCableExists) {
  const auto whole = branch_program();
  cut(whole, emulated_row(), {"conv0", "conv1", "conv2", "conv3"});
  EXPECT_EQ(relays(), 2U);
  expect_bytes_of(whole, 4, 5);
}

TEST_F(CutBranches, NetworkThatIsCutInsideABranchGivesTheSameOutputs) {
  const auto whole = branch_program();
  cut(whole, emulated_row(), {"conv0", "conv2", "conv4"});
  expect_bytes_of(whole, 3, 3);
}

TEST_F(CutBranches, EachInnerCardRelaysASkipConnectionFromTheFirstToTheLastCard) {
  const auto whole = skip_program(4);
  cut(whole, emulated_row(), {"conv0", "conv1", "conv2", "conv3"});
  EXPECT_EQ(relays(), 2U);
  expect_bytes_of(whole, 4, 5);
}

TEST_F(CutBranches, CardThatReadsATensorAlsoRelaysTheTensorToTheNextCard) {
  const auto whole = branch_program();
  // The output of the block conv0 is read by conv1 on the second card and by conv3 on the third card.
  cut(whole, emulated_row(), {"conv0", "conv1", "conv3"});
  EXPECT_EQ(relays(), 1U);
  expect_bytes_of(whole, 3, 3);
}

TEST_F(CutBranches, LayerSplitByOutputChannelsOverCardsGivesTheSameBytes) {
  const auto whole = chain_program(3, 8);
  std::uint32_t block = 0;
  while (whole.blocks[block].name != "conv1") ++block;
  for (const std::uint32_t parts : {2U, 4U}) {
    ASSERT_TRUE(compiler::can_split(whole, block, parts));
    const auto split = compiler::split_channels(whole, block, parts);
    std::vector<std::string> firsts;
    for (std::uint32_t part = 0; part < parts; ++part) firsts.push_back("conv1_part" + std::to_string(part));
    firsts.front() = "conv0";
    cut(split, emulated_row(), firsts);
    // The n-th cable transports the output of conv0 and the channels that the n parts before the cable have computed.
    std::size_t links = 0;
    for (std::uint32_t n = 1; n < parts; ++n) links += 1 + n;
    expect_bytes_of(whole, parts, links);
  }
}

}  // namespace
}  // namespace millrace::tests::test_cut_branches
