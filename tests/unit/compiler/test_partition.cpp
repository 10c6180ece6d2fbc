#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "compiler/explore/partition.hpp"
#include "problems.hpp"
#include "tests/shortcuts/cuts.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/seed.hpp"

namespace millrace::compiler::explore::test_partition {
namespace {

using millrace::tests::cut_by_work;
using tests::expect;

/// Returns a problem with a chain of layers of these costs. Tensor i + 1, of 100 bytes, joins layers i and i + 1.
Problem chain(const std::vector<std::uint64_t>& costs, std::uint32_t cards) {
  Problem problem;
  problem.model = "net";
  problem.cluster = "c";
  problem.tensors.push_back({"t0", 100});
  for (std::uint32_t i = 0; i < costs.size(); ++i) {
    problem.tensors.push_back({"t" + std::to_string(i + 1), 100});
    problem.operations.push_back({"op" + std::to_string(i), costs[i], false, true, {i}, {i + 1}});
  }
  for (std::uint32_t i = 0; i < cards; ++i) {
    problem.cards.push_back({"fpga" + std::to_string(i), "ku060"});
    if (i > 0) problem.cables.push_back({i - 1, i});
  }
  return problem;
}

std::vector<std::size_t> sizes(const Solution& solution) {
  std::vector<std::size_t> found;
  for (const auto& part : solution.parts)
    if (!part.host) found.push_back(part.operations.size());
  return found;
}

std::uint64_t largest_cost(const Problem& problem, const Solution& solution) {
  std::map<std::uint32_t, std::uint64_t> cost;  // by piece
  for (const auto& part : solution.parts)
    for (const auto operation : part.operations)
      if (!part.host) cost[part.place] += problem.operations[operation].cost;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(cost.begin(), cost.end(), less)->second;
}

std::string refusal(const Problem& problem, ErrorCode code) {
  return tests::refusal_of(cut_by_work(problem), code);
}

TEST(Partition, MinimisesTheCostOfTheMostExpensivePart) {
  const Problem problem = chain({9, 1, 1, 1, 6}, 2);
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(sizes(*solution), (std::vector<std::size_t>{1, 4}));
  EXPECT_EQ(largest_cost(problem, *solution), 9U);
  EXPECT_EQ(solution->crossing_bytes, 100U);
}

TEST(Partition, PrefersTheCutWithFewestBytesAmongEquallyBalancedCuts) {
  Problem problem = chain({5, 0, 0, 5}, 2);
  problem.tensors[1].bytes = 1000;
  problem.tensors[2].bytes = 10;
  problem.tensors[3].bytes = 500;
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(sizes(*solution), (std::vector<std::size_t>{2, 2}));
  EXPECT_EQ(solution->crossing_bytes, 10U);
}

TEST(Partition, EqualsBruteForceOnRandomChains) {
  const unsigned seed = millrace::tests::chosen_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 3 + random() % 6;
    std::vector<std::uint64_t> costs;
    for (std::size_t i = 0; i < count; ++i) costs.push_back(random() % 8);
    Problem problem = chain(costs, 3);
    for (auto& tensor : problem.tensors) tensor.bytes = random() % 50;
    std::pair<std::uint64_t, std::uint64_t> best{~0ULL, ~0ULL};
    for (std::size_t a = 1; a < count; ++a)
      for (std::size_t b = a + 1; b < count; ++b) {
        const auto sum = [&](std::size_t from, std::size_t to) {
          std::uint64_t total = 0;
          for (std::size_t i = from; i < to; ++i) total += costs[i];
          return total;
        };
        best = std::min(best, {std::max({sum(0, a), sum(a, b), sum(b, count)}),
                               problem.tensors[a].bytes + problem.tensors[b].bytes});
      }
    problem.partitions = 3;
    const auto solution = cut_by_work(problem);
    ASSERT_TRUE(solution.ok()) << "MILLRACE_SEED=" << seed;
    EXPECT_EQ(std::pair(largest_cost(problem, *solution), solution->crossing_bytes), best)
        << "MILLRACE_SEED=" << seed;
    EXPECT_EQ(verify(problem, *solution), "") << "MILLRACE_SEED=" << seed;
  }
}

TEST(Partition, UsesAllCardsUnlessThereAreFewerLayersOrALimit) {
  EXPECT_EQ(sizes(*cut_by_work(chain({1, 1, 1, 1, 1}, 3))).size(), 3U);
  EXPECT_EQ(sizes(*cut_by_work(chain({1, 1}, 3))).size(), 2U);
  Problem one = chain({1, 1, 1}, 3);
  one.partitions = 1;
  EXPECT_EQ(sizes(*cut_by_work(one)), std::vector<std::size_t>{3});
}

TEST(Partition, RefusesMorePartitionsThanLayersOrCards) {
  Problem layers = chain({1, 1}, 3);
  layers.partitions = 3;
  const auto text = refusal(layers, ErrorCode::kDoesNotFit);
  expect(text, "--partitions 3");
  expect(text, "2 layers");
  expect(text, "at most 2");
  Problem cards = chain({1, 1, 1, 1}, 2);
  cards.partitions = 3;
  expect(refusal(cards, ErrorCode::kDoesNotFit), "has 2 cards; request at most 2");
  Problem none = chain({1}, 1);
  none.partitions = 0;
  expect(refusal(none, ErrorCode::kInvalidInput), "at least one");
  Problem host = chain({1}, 1);
  host.operations[0].host = true;
  expect(refusal(host, ErrorCode::kInvalidInput), "nothing that a card computes");
}

/// Returns a chain() with an additional tensor from the first to the last layer.
Problem with_skip(std::uint32_t layers, std::uint32_t cards) {
  Problem problem = chain(std::vector<std::uint64_t>(layers, 5), cards);
  problem.tensors.push_back({"skip", 40});
  problem.operations.front().outputs.push_back(static_cast<std::uint32_t>(problem.tensors.size() - 1));
  problem.operations.back().inputs.push_back(static_cast<std::uint32_t>(problem.tensors.size() - 1));
  return problem;
}

TEST(Partition, RefusesASkipConnectionThatHasNoCable) {
  Problem problem = with_skip(3, 3);
  problem.partitions = 3;
  const auto text = refusal(problem, ErrorCode::kDoesNotFit);
  expect(text, "lacks cables for 3 partitions");
  expect(text, "tensor 'skip' goes from partition 0 to 2");
  problem.cables.push_back({0, 2});
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok()) << solution.error().message();
  EXPECT_EQ(verify(problem, *solution), "");
}

TEST(Partition, UsesFewerCardsIfTheCablesCannotConnectMore) {
  const auto solution = cut_by_work(with_skip(3, 3));
  ASSERT_TRUE(solution.ok()) << solution.error().message();
  EXPECT_EQ(sizes(*solution).size(), 2U);
}

TEST(Partition, PrefersCutsThatNeedOnlyExistingCables) {
  // The middle layers are a residual block. With balanced cuts, its skip connection would pass over the second card.
  Problem problem = chain({6, 3, 3, 3, 6}, 3);
  problem.tensors.push_back({"skip", 40});
  problem.operations[0].outputs.push_back(6);
  problem.operations[3].inputs.push_back(6);
  problem.partitions = 3;
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok()) << solution.error().message();
  EXPECT_EQ(verify(problem, *solution), "");
}

TEST(Partition, ChoosesCardsWhoseCablesFitTheCuts) {
  Problem problem = chain({1, 1, 1}, 4);  // the cards form a star around fpga3
  problem.cables = {{3, 0}, {3, 1}, {3, 2}};
  problem.partitions = 3;
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok()) << solution.error().message();
  EXPECT_EQ(solution->card[1], 3U);
  problem.cables.clear();
  expect(refusal(problem, ErrorCode::kDoesNotFit), "add cables");
}

TEST(Partition, KeepsHostOnlyBlocksOffTheCards) {
  const auto program = millrace::tests::every_operation_program();
  runtime::plan::Cluster cluster;
  cluster.name = "one";
  cluster.cards = {{"fpga0", "ku060", ""}};
  const Problem problem = make_problem(program, cluster, {});
  ASSERT_EQ(check(problem), "");
  std::vector<std::string> host;
  for (const auto& operation : problem.operations)
    if (operation.host) host.push_back(operation.name);
  EXPECT_EQ(host, (std::vector<std::string>{"quantise", "permute", "dequantise", "softmax"}));
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok()) << solution.error().message();
  ASSERT_EQ(solution->parts.size(), 3U);
  EXPECT_TRUE(solution->parts[0].host);
  EXPECT_FALSE(solution->parts[1].host);
  EXPECT_TRUE(solution->parts[2].host);
}

TEST(Partition, PartsBeforeAndAfterAHostBlockCanShareACard) {
  Problem problem = chain({4, 0, 4}, 1);
  problem.operations[1].host = true;
  const auto solution = cut_by_work(problem);
  ASSERT_TRUE(solution.ok()) << solution.error().message();
  EXPECT_EQ(solution->parts.size(), 3U);
  EXPECT_EQ(solution->parts[0].place, solution->parts[2].place);
  EXPECT_EQ(largest_cost(problem, *solution), 8U);
  EXPECT_EQ(verify(problem, *solution), "");
}

TEST(Partition, RefusesATensorFromACardToItselfThatBypassesAHostBlock) {
  Problem problem = chain({4, 0, 4}, 1);
  problem.operations[1].host = true;
  problem.operations[2].inputs.push_back(1);
  expect(refusal(problem, ErrorCode::kUnsupported), "tensor 't1'");
}

TEST(Partition, NeverCutsInsideALayer) {
  Problem problem = chain({10, 1, 1, 10, 1}, 2);
  for (const auto i : {1, 2, 4}) problem.operations[static_cast<std::size_t>(i)].starts_layer = false;
  ASSERT_EQ(layers(problem).size(), 2U);
  EXPECT_EQ(sizes(*cut_by_work(problem)), (std::vector<std::size_t>{3, 2}));
}

TEST(PartitionCheck, NamesTheErrorInAnInvalidProblem) {
  Problem problem = chain({1, 1}, 1);
  std::swap(problem.operations[0], problem.operations[1]);
  expect(check(problem), "before the tensor is computed");
  problem = chain({1, 1}, 1);
  problem.operations[1].outputs = {1};
  expect(check(problem), "two producers");
  problem.operations[1].outputs = {9};
  expect(check(problem), "does not exist");
}

TEST(PartitionVerify, NamesTheErrorInAnInvalidSolution) {
  const Problem problem = with_skip(4, 2);
  const Solution good = *cut_by_work(problem);
  ASSERT_EQ(verify(problem, good), "");
  const auto with = [&](auto change) {
    Solution changed = good;
    change(changed);
    return verify(problem, changed);
  };
  expect(with([](auto& s) { s.parts.pop_back(); }), "is nowhere");
  expect(with([](auto& s) { s.parts[1].operations.push_back(0); }), "is listed twice");
  expect(with([](auto& s) { s.parts[1].operations.push_back(77); }), "does not exist");
  expect(with([](auto& s) { s.parts[0].host = true; }), "wrong side");
  expect(with([](auto& s) { std::swap(s.parts[0], s.parts[1]); }), "earlier part");
  expect(with([](auto& s) { s.card = {0, 0}; }), "used twice");
  expect(with([](auto& s) { s.card = {0}; }), "no card");
  expect(with([](auto& s) { ++s.crossing_bytes; }), "crossing_bytes");
  Problem cableless = problem;
  cableless.cables.clear();
  expect(verify(cableless, good), "no cable");
}

}  // namespace
}  // namespace millrace::compiler::explore::test_partition
