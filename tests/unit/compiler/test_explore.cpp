// Tests the search for foldings (the parallelism of blocks) and for the cards of layers: its solutions, its refusals,
// and its analysis of a plan.
//
// This source has more than 500 lines because each test is a small problem for the same search, and the tests share the
// functions that make problems.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "brute_force.hpp"
#include "compiler/explore/analysis.hpp"
#include "compiler/explore/packing.hpp"
#include "compiler/explore/partition.hpp"
#include "problems.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/seed.hpp"

namespace millrace::compiler::explore::test_explore {
namespace {

using tests::expect;
using tests::row;

Solution solved(const Problem& problem) {
  return tests::verified(problem, solve(problem));
}

Analysis explained(const Problem& problem, const Solution& solution) {
  Analysis analysis = analyse(problem, solution);
  explain(problem, solution, analysis);
  return analysis;
}

Analysis explained(const Problem& problem) {
  return explained(problem, solved(problem));
}

std::string refusal(const Problem& problem, ErrorCode code = ErrorCode::kDoesNotFit) {
  return tests::refusal_of(solve(problem), code);
}

/// Returns the name of an operation that reads weights from memory although an implementation without memory reads
/// would give an equally good solution. Returns an empty string if there is no such operation.
std::string needless_reader(const Problem& problem, const Solution& solution) {
  Choice choice;
  choice.card = solution.card;
  choice.place.assign(problem.operations.size(), 0);
  choice.region = solution.region;
  choice.implementation = solution.implementation;
  for (const auto& part : solution.parts)
    for (const auto operation : part.operations) choice.place[operation] = part.place;
  const bool by_latency = problem.targets.objective == Objective::kLatency;
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const auto& ways = problem.operations[i].implementations;
    if (ways[solution.implementation[i]].amounts[kMemoryBytes] == 0) continue;
    for (std::uint32_t w = 0; w < ways.size(); ++w) {
      if (ways[w].amounts[kMemoryBytes] > 0) continue;
      choice.implementation[i] = w;
      const auto without = solution_of(problem, choice);
      if (without.ok() && without->interval_seconds <= solution.interval_seconds &&
          (!by_latency || without->latency_seconds <= solution.latency_seconds))
        return problem.operations[i].name;
    }
    choice.implementation[i] = solution.implementation[i];
  }
  return {};
}

TEST(Explore, MatchesBruteForceOnSmallRandomProblems) {
  const unsigned seed = millrace::tests::chosen_seed();
  std::mt19937 random(seed);
  int feasible = 0, reading = 0;
  for (int round = 0; round < 1500; ++round) {
    const Problem problem = tests::random_problem(random);
    const std::string where = "MILLRACE_SEED=" + std::to_string(seed) + " round " + std::to_string(round);
    const auto expected = tests::brute_force(problem);
    const auto found = solve(problem);
    if (!found.ok() && found.error().code() == ErrorCode::kInternal) FAIL() << found.error().message();
    if (!expected || !found.ok()) {
      ASSERT_EQ(expected.has_value(), found.ok())
          << where << ": " << (found.ok() ? "found" : found.error().message());
      continue;
    }
    ++feasible;
    ASSERT_EQ(verify(problem, *found), "") << where;
    EXPECT_TRUE(found->exact) << where;
    EXPECT_EQ(needless_reader(problem, *found), "") << where;
    for (std::size_t i = 0; i < problem.operations.size(); ++i)
      reading += problem.operations[i].implementations[found->implementation[i]].amounts[kMemoryBytes] > 0;
    const auto equal = [&](double a, double b) { return std::abs(a - b) <= 2e-6 * std::abs(b); };
    switch (problem.targets.objective) {
      case Objective::kCards:
        EXPECT_EQ(static_cast<double>(found->card.size()), expected->cards) << where;
        EXPECT_TRUE(equal(found->interval_seconds, expected->interval))
            << where << ": " << found->interval_seconds << " for " << expected->interval;
        break;
      case Objective::kThroughput:
        EXPECT_TRUE(equal(found->interval_seconds, expected->interval))
            << where << ": " << found->interval_seconds << " for " << expected->interval;
        break;
      case Objective::kLatency:
        EXPECT_TRUE(equal(found->latency_seconds, expected->latency))
            << where << ": " << found->latency_seconds << " for " << expected->latency;
        break;
    }
  }
  EXPECT_GT(feasible, 300);
  EXPECT_GT(reading, 100);
}

/// Whether one option for each operation can be chosen so that all fit the budget. Tries all combinations.
bool some_choice_fits(const std::vector<std::vector<Option>>& operations, const Amounts& budget,
                      std::size_t next = 0, const Amounts& used = {}) {
  if (next == operations.size()) return within(used, budget);
  return std::any_of(operations[next].begin(), operations[next].end(), [&](const Option& one) {
    return some_choice_fits(operations, budget, next + 1, used + one.amounts);
  });
}

TEST(ExplorePacking, FindsAPackingOrProvesThatNoneExists) {
  const unsigned seed = millrace::tests::chosen_seed();
  std::mt19937 random(seed);
  int fitting = 0, priced = 0;
  Figures weights = even_weights();  // reused for the next problem, as in IntervalFit
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::vector<Option>> operations(1 + random() % 5);
    Amounts budget{};
    for (std::size_t k : {kLut, kDsp, kBram18}) budget[k] = 10 + random() % 60;
    for (auto& options : operations)
      for (std::size_t n = 1 + random() % 5; n > 0; --n) {
        Option& one = options.emplace_back();
        for (std::size_t k : {kLut, kDsp, kBram18}) one.amounts[k] = random() % 40;
        for (std::size_t k = 0; k < kKinds; ++k) one.figures[k] = static_cast<double>(one.amounts[k]);
      }
    std::vector<Choices> all;
    for (const auto& options : operations) all.push_back(choices(options, budget));
    std::vector<const Choices*> pointers;
    for (const auto& one : all) pointers.push_back(&one);
    const Packed packed = pack(pointers, budget, weights);
    const bool fits = some_choice_fits(operations, budget);
    ASSERT_EQ(packed.fit, fits ? Fit::kYes : Fit::kNo) << "MILLRACE_SEED=" << seed << " round " << round;
    if (fits) {
      ++fitting;
      Amounts used{};
      for (std::size_t i = 0; i < operations.size(); ++i) used += operations[i][packed.choice[i]].amounts;
      EXPECT_TRUE(within(used, budget));
      EXPECT_EQ(used, packed.used);
    }
    if (packed.proof) {
      ++priced;
      double least = 0, all_of_it = 0;
      for (const auto& options : operations) {
        double cheapest = 1e9;
        for (const auto& one : options)
          if (within(one.amounts, budget)) cheapest = std::min(cheapest, price(one.figures, *packed.proof));
        least += cheapest;
      }
      for (std::size_t k = 0; k < kKinds; ++k)
        all_of_it += static_cast<double>(budget[k]) * (*packed.proof)[k];
      EXPECT_GT(least, 1);
      EXPECT_LE(all_of_it, 1 + 1e-9);
    }
  }
  EXPECT_GT(fitting, 200) << "MILLRACE_SEED=" << seed;
  EXPECT_GT(priced, 200) << "MILLRACE_SEED=" << seed;
}

TEST(Explore, UsesTheFewestCardsThatReachTheTarget) {
  Problem problem = row({1024, 1024, 1024, 1024}, 4, 20);
  problem.targets.frames_per_second = 1e8 / 256;
  const Solution two = solved(problem);
  EXPECT_EQ(two.card.size(), 1U);
  EXPECT_DOUBLE_EQ(two.interval_seconds,
                   256e-8);  // 16 of 20 DSP slices; 4 more cannot speed up all four layers
  problem.targets.frames_per_second = 1e8 / 128;
  EXPECT_EQ(solved(problem).card.size(), 2U);
  problem.targets.frames_per_second.reset();
  problem.targets.objective = Objective::kThroughput;
  const Solution all = solved(problem);
  EXPECT_EQ(all.card.size(), 4U);
  EXPECT_DOUBLE_EQ(all.interval_seconds, 64e-8);
  EXPECT_TRUE(all.exact);
}

TEST(Explore, TheLatencyObjectiveGivesTheLowestLatency) {
  Problem problem = row({1024, 64}, 1, 80);
  problem.targets.objective = Objective::kLatency;
  const Solution quick = solved(problem);
  problem.targets.objective = Objective::kCards;
  EXPECT_LT(quick.latency_seconds, solved(problem).latency_seconds + 1e-15);
  problem.targets.max_latency_seconds = quick.latency_seconds;
  EXPECT_LE(solved(problem).latency_seconds, quick.latency_seconds * (1 + 1e-9));
}

/// Branch and bound cannot finish on problems of this size, so the test covers the search without it.
TEST(Explore, LatencyTargetThatIsAlreadyMetDoesNotReduceTheRate) {
  const unsigned seed = millrace::tests::chosen_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 12; ++round) {
    std::vector<std::uint64_t> work;
    for (int i = 0; i < 16; ++i) work.push_back(std::uint64_t{64} << random() % 6);
    Problem problem = row(work, 1 + static_cast<std::uint32_t>(random() % 3), 40 + random() % 200);
    const std::string where = "MILLRACE_SEED=" + std::to_string(seed) + " round " + std::to_string(round);
    const Solution plain = solved(problem);
    problem.targets.objective = Objective::kLatency;
    const Solution soonest = solved(problem);
    problem.targets.objective = Objective::kCards;
    for (const double factor : {1.0, 1.3, 2.0, 10.0, 1e6}) {
      problem.targets.max_latency_seconds = plain.latency_seconds * factor;
      const auto found = solve(problem);
      ASSERT_TRUE(found.ok()) << where << ": " << found.error().message();
      EXPECT_EQ(found->card.size(), plain.card.size()) << where;
      EXPECT_LE(found->interval_seconds, plain.interval_seconds * (1 + 1e-9)) << where << " times " << factor;
    }
    for (const double factor : {1.0, 1.02, 1.1, 1.5, 3.0}) {
      problem.targets.max_latency_seconds = soonest.latency_seconds * factor;
      const auto found = solve(problem);
      ASSERT_TRUE(found.ok()) << where << " times " << factor << ": " << found.error().message();
      EXPECT_EQ(verify(problem, *found), "") << where;
    }
  }
}

TEST(Explore, ChoosesTheLargerCardOfAMixedCluster) {
  Problem problem = row({1024, 1024, 1024}, 3, 4);
  problem.cards[1].regions[0].available[kDsp] = 200;
  problem.cards[1].clock_hz = 3e8;
  const Solution one = solved(problem);
  EXPECT_EQ(one.card, std::vector<std::uint32_t>{1});
}

TEST(Explore, AssignsLayersToRegionsInOrder) {
  Problem problem = row({64, 64, 64}, 1, 8);
  problem.cards[0].regions.push_back(problem.cards[0].regions[0]);
  problem.targets.objective = Objective::kThroughput;
  const Solution solution = solved(problem);
  EXPECT_EQ(solution.region.front(), 0U);
  EXPECT_EQ(solution.region.back(), 1U);
  EXPECT_DOUBLE_EQ(solution.interval_seconds,
                   16e-8);  // two layers with 4 slices each share a region
}

TEST(Explore, RelaysATensorThroughIntermediateCards) {
  Problem problem = row({64, 64, 64}, 3, 4);
  problem.tensors.push_back({"skip", 500});
  problem.operations[0].outputs.push_back(4);
  problem.operations[2].inputs.push_back(4);
  problem.partitions = 3;
  const Solution solution = solved(problem);
  EXPECT_EQ(
      std::count_if(solution.hops.begin(), solution.hops.end(), [](const Hop& h) { return h.tensor == 4; }),
      2);
  problem.cables.push_back({0, 2, 1.25e9, 0});  // the chain is now a ring with a direct cable
  const Solution ring = solved(problem);
  EXPECT_EQ(std::count_if(ring.hops.begin(), ring.hops.end(), [](const Hop& h) { return h.tensor == 4; }), 1);
}

/// verify() computes the figures of a plan without the search's code, also if tensors pass through the hosts' memory.
TEST(Explore, CardsThatAreJoinedThroughTheirHostsNeedNoLinksAndSendWholeTensors) {
  Problem problem = row({64, 64, 64}, 3, 4);
  problem.partitions = 3;
  for (auto& card : problem.cards) card.link[kDsp] = 1;
  for (auto& cable : problem.cables) cable.latency_seconds = 1e-6;
  problem.targets.objective = Objective::kLatency;
  const Solution cabled = solved(problem);
  for (auto& cable : problem.cables) cable.through_hosts = true;
  const Solution passed = solved(problem);
  // Cables through the hosts need no hardware links, so layers may use all DSP slices. But a card begins only
  // when a whole tensor has arrived.
  EXPECT_LT(passed.interval_seconds, cabled.interval_seconds);
  for (auto& card : problem.cards) card.link = {};
  const Solution again = solved(problem);
  EXPECT_EQ(again.interval_seconds, passed.interval_seconds);
  for (auto& cable : problem.cables) cable.through_hosts = false;
  EXPECT_LT(solved(problem).latency_seconds, again.latency_seconds);
}

TEST(Explore, PutsThreeOutputBranchesOnTheOuterCardsOfAStar) {
  Problem problem = row({64, 64, 64, 64}, 4, 4);
  for (const std::size_t head : {1U, 2U, 3U})
    problem.operations[head].inputs = {1};  // all branches read the first layer's output
  problem.cables = {{2, 0, 1.25e9, 0}, {2, 1, 1.25e9, 0}, {2, 3, 1.25e9, 0}};
  problem.partitions = 4;
  const Solution solution = solved(problem);
  EXPECT_LE(std::find(solution.card.begin(), solution.card.end(), 2) - solution.card.begin(), 1);
  EXPECT_TRUE(solution.exact);
}

TEST(Explore, ASlowCableLimitsTheRate) {
  Problem problem = row({64, 64}, 2, 64);
  problem.partitions = 2;
  problem.cables[0].bytes_per_second = 100 / 40e-8;
  problem.targets.objective = Objective::kThroughput;
  EXPECT_NEAR(solved(problem).interval_seconds, 40e-8, 1e-15);
}

TEST(Explore, TheMemoryBandwidthLimitsStreamedWeights) {
  Problem problem = row({64}, 1, 64);
  Implementation streamed = problem.operations[0].implementations.front();
  streamed.interval_cycles = 1;
  streamed.fill_cycles = 0;
  streamed.amounts = {1, 0, 0, 0, 0, 0, 100};
  problem.operations[0].implementations = {streamed};
  EXPECT_NEAR(solved(problem).interval_seconds, 1e-7, 1e-13);  // 100 bytes at 1 GB/s
}

/// Returns a problem with two layers. Each layer can store its weights in 80 BRAM18, or read 1,000 bytes a frame.
Problem two_placements() {
  Problem problem = row({64, 64}, 1, 64);
  for (auto& operation : problem.operations) {
    for (auto& way : operation.implementations) way.amounts[kBram18] = 80;
    Implementation streamed = operation.implementations[4];  // needs 4 cycles
    streamed.amounts[kBram18] = 0;
    streamed.amounts[kMemoryBytes] = 1000;
    operation.implementations.push_back(streamed);
  }
  return problem;
}

TEST(Explore, StreamsOnlyTheWeightsThatDoNotFit) {
  const auto readers = [](const Problem& problem, const Solution& solution) {
    int count = 0;
    for (std::size_t i = 0; i < problem.operations.size(); ++i)
      count += problem.operations[i].implementations[solution.implementation[i]].amounts[kMemoryBytes] > 0;
    return count;
  };
  for (const auto objective : {Objective::kCards, Objective::kThroughput, Objective::kLatency}) {
    Problem problem = two_placements();
    problem.targets.objective = objective;
    const Solution solution = solved(problem);
    EXPECT_EQ(readers(problem, solution), 1) << objective_name(objective);
    EXPECT_NEAR(solution.interval_seconds, 1e-6, 1e-12) << objective_name(objective);
    problem.cards[0].regions[0].available[kBram18] = 160;
    EXPECT_EQ(readers(problem, solved(problem)), 0) << objective_name(objective);
  }
}

TEST(Explore, SharesTheBandwidthOfACardAmongItsRegions) {
  Problem problem = two_placements();
  auto& regions = problem.cards[0].regions;
  regions[0].available[kBram18] = 20;
  regions[0].available[kLut] = 120;  // enough for one layer
  regions.push_back(regions[0]);
  const Solution solution = solved(problem);
  EXPECT_EQ(solution.region, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_NEAR(solution.interval_seconds, 2e-6, 1e-12);
  Solution claimed = solution;
  claimed.interval_seconds = 1e-6;
  expect(verify(problem, claimed), "interval_seconds is wrong");
  EXPECT_NEAR(analyse(problem, solution).places[0].roofline.memory, 5e5, 1e-3);
}

TEST(Explore, RefusesAClusterWhoseCablesCannotFormTheChain) {
  // A cable joins every two of the first twelve cards; the thirteenth card has no cable. There are too many chains of
  // cards to try all.
  Problem problem = row(std::vector<std::uint64_t>(16, 4), 13, 64);
  problem.cables.clear();
  for (std::uint32_t a = 0; a < 12; ++a)
    for (std::uint32_t b = 0; b < a; ++b) problem.cables.push_back({b, a, 1.25e9, 5e-7});
  problem.cards[3].clock_hz *= 2;
  problem.partitions = 13;
  EXPECT_NE(tests::refusal_of(solve(problem), ErrorCode::kDoesNotFit), "accepted");
}

TEST(Explore, ASecondCableDoesNotSpeedUpOneTensor) {
  Problem problem = row({64, 64}, 2, 64);
  problem.partitions = 2;
  problem.targets.objective = Objective::kThroughput;
  for (auto& tensor : problem.tensors) tensor.bytes = 12'500'000;  // 10 ms on a cable
  for (int cables = 1; cables <= 2; ++cables) {
    EXPECT_NEAR(solved(problem).interval_seconds, 10e-3, 1e-9) << cables << " cables";
    problem.cables.push_back(problem.cables.front());
  }
}

TEST(Explore, BranchAndBoundReportsAnOptimalityGapForAnUnprovenSolution) {
  // The cards are a hub and three leaves, so there is no chain of four cards. After the first layer there are three
  // branches, and each branch fills a card.
  Problem problem = row({64, 512, 640, 512, 640, 512, 640}, 4, 2000);
  for (const std::uint32_t first : {1U, 3U, 5U}) problem.operations[first].inputs = {1};
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    for (auto& way : problem.operations[i].implementations) way.amounts[kBram18] = i == 0 ? 90 : 50;
  problem.cables.clear();
  for (std::uint32_t leaf = 1; leaf < 4; ++leaf) problem.cables.push_back({0, leaf, 1.25e9, 5e-7});
  problem.partitions = 4;
  for (const auto objective : {Objective::kCards, Objective::kThroughput, Objective::kLatency}) {
    problem.targets.objective = objective;
    const Solution solution = solved(problem);
    EXPECT_FALSE(solution.exact) << objective_name(objective);
    EXPECT_GT(solution.gap, 0) << objective_name(objective);
    EXPECT_LT(solution.gap, 10) << objective_name(objective);
  }
}

TEST(Explore, BoundsTheMemoryTrafficOfAllRegionsOfACardTogether) {
  // There are many layers. Block RAM has room for the weights of few layers, and both regions read the same memory.
  Problem problem = row(std::vector<std::uint64_t>(60, 100), 1, 1000);
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    auto& ways = problem.operations[i].implementations;
    ways.resize(1);
    ways[0].amounts[kMemoryBytes] = 900 + 7 * (i % 13);
    ways.push_back(ways[0]);
    ways[1].amounts[kMemoryBytes] = 0;
    ways[1].amounts[kBram18] = 90 + 11 * (i % 7);
  }
  auto& regions = problem.cards[0].regions;
  regions[0].available[kBram18] = 1000;
  regions[0].available[kDsp] = 34;
  regions[0].available[kMemoryBytes] = 1'000'000'000;
  regions.push_back(regions[0]);
  problem.targets.objective = Objective::kThroughput;
  const Solution solution = solved(problem);
  EXPECT_FALSE(solution.exact);
  EXPECT_LT(solution.gap, 0.25) << "the bound gives each region the whole memory";
}

using runtime::plan::MemoryBank;

/// Returns a problem with three layers on a card with two regions and the memory banks `banks`. The second region is
/// connected only to the bank `second`. Each layer either reads 8,000 bytes a frame or uses a region's whole block RAM.
Problem on_banks(const std::vector<MemoryBank>& banks, const std::string& second) {
  runtime::plan::Device device;
  device.name = "card";
  device.clock_mhz = 100;
  device.memory = banks;
  for (const char* name : {"SLR0", "SLR1"}) {
    device.regions.push_back({name, {1000, 0, 1000, 10, 50, 0}, {}, "device"});
    for (const auto& bank : banks)
      if ((bank.name == second) == (device.regions.size() == 2))
        device.regions.back().memory.push_back(bank.name);
  }
  runtime::plan::Cluster cluster;
  cluster.name = "one";
  cluster.cards = {{"fpga0", "card", ""}};
  cluster.devices["card"] = device;
  Shares shares;
  shares.fill(1);
  Problem problem = make_problem(millrace::tests::chain_program(3), cluster, {}, shares);
  for (auto& operation : problem.operations) {
    if (operation.host) continue;
    operation.implementations.push_back({"small", 4});
    if (!operation.starts_layer) continue;
    operation.implementations[0].amounts[kMemoryBytes] = 8000;
    operation.implementations.push_back({"on the chip", 4});
    operation.implementations[1].amounts[kBram18] = 100;
  }
  problem.targets.objective = Objective::kThroughput;
  return problem;
}

TEST(Explore, StreamsWeightsAtTheBandwidthOfASingleBank) {
  constexpr std::uint64_t kGiga = 1'000'000'000;
  const MemoryBank first{"DDR[0]", kGiga, kGiga};
  const Problem one = on_banks({first}, "");
  const Solution solution = solved(one);
  // Block RAM has room for the weights of two layers, one layer in each region.
  EXPECT_NEAR(solution.interval_seconds, 8e-6, 1e-12);
  for (const auto& [banks, second] :
       {std::pair<std::vector<MemoryBank>, std::string>{{first, {"DDR[1]", kGiga, kGiga}}, ""},
        {{first, {"DDR[1]", kGiga, kGiga}}, "DDR[1]"},
        {{first, {"DDR[1]", kGiga, 9 * kGiga}, {"DDR[2]", kGiga, kGiga}, {"HBM", kGiga, 99 * kGiga}}, "HBM"},
        // The bandwidth of HBM in a device file is the sum of 32 channels.
        {{{"HBM", kGiga, 32 * kGiga}}, ""},
        {{{"HBM", kGiga, 32 * kGiga}, {"DDR[0]", kGiga, 9 * kGiga}}, "DDR[0]"}}) {
    SCOPED_TRACE(std::to_string(banks.size()) + " banks, the second region on '" + second + "'");
    const Problem more = on_banks(banks, second);
    const Solution same = solved(more);
    EXPECT_EQ(same.interval_seconds, solution.interval_seconds);
    EXPECT_EQ(same.latency_seconds, solution.latency_seconds);
    EXPECT_EQ(same.implementation, solution.implementation);
    EXPECT_EQ(same.region, solution.region);
    Solution claimed = same;
    claimed.interval_seconds = same.interval_seconds / 2;
    expect(verify(more, claimed), "interval_seconds is wrong");
  }
  const Problem half = on_banks({{"DDR[0]", kGiga, kGiga / 2}, {"DDR[1]", kGiga, kGiga}}, "");
  EXPECT_NEAR(solved(half).interval_seconds, 16e-6, 1e-12);
  EXPECT_NEAR(solved(on_banks({{"HBM", kGiga, 16 * kGiga}}, "")).interval_seconds, 16e-6, 1e-12);
  // A solution that needs the whole memory bandwidth must be refused if only half of the bandwidth is available.
  expect(verify(half, solution), "interval_seconds is wrong");
}

TEST(Explore, NamesTheMemoryIfItsBandwidthIsTheBottleneck) {
  Problem problem = two_placements();
  const Analysis slow = explained(problem);
  EXPECT_EQ(slow.bottleneck, "the memory of fpga0 limits: 1000 bytes of weights a frame");
  EXPECT_NEAR(slow.places[0].roofline.memory, 1e6, 1e-3);
  problem.targets.frames_per_second = 1.25e6;
  const auto text = refusal(problem);
  expect(text,
         "what it has too little of is memory bandwidth, with 25 % more (1000 bytes a frame instead of");
  expect(text, "this cluster reaches 1000000 frames/s");
  // Without the implementations in block RAM, weights must be read from memory, which is too slow.
  for (auto& operation : problem.operations)
    operation.implementations.erase(operation.implementations.begin(), operation.implementations.end() - 1);
  expect(refusal(problem),
         "at least 1000 bytes a frame of memory bandwidth, 200 (25 %) more than the 800 left");
}

TEST(Explore, ARefusalNamesTheShortageAndTheBestPossibleRate) {
  Problem large = row({1024, 1024}, 1, 2);
  for (auto& way : large.operations[1].implementations) way.amounts[kBram18] = 150;
  const auto too_large = refusal(large);
  expect(too_large, "layer 'conv1' needs at least 150 BRAM18, 50 (50 %) more than the 100 left of 'ku060'");
  expect(too_large, "unless layers are split, the model does not fit at any frame rate");

  Problem slow = row({1000, 1000}, 1, 2000);
  for (auto& operation : slow.operations) operation.implementations.resize(2);
  slow.targets.frames_per_second = 1e6;
  const auto too_slow = refusal(slow);
  expect(too_slow,
         "takes at least 500 cycles per frame with its fastest implementation: 200000 frames/s at 100 MHz");
  expect(too_slow, "this cluster reaches 200000 frames/s on 1 card");

  Problem behind = row({8, 8}, 1, 2000);
  behind.tensors.push_back({"t3", 100});
  Operation pool{"pool", 0, false, false, {2}, {3}};
  pool.implementations = {{"alone", 500, 1, 1}};
  behind.operations.push_back(pool);
  behind.targets.frames_per_second = 1e6;
  expect(refusal(behind), "'pool', in layer 'conv1', takes at least 500 cycles per frame");

  Problem crowded = row({1024, 1024, 1024, 1024}, 1, 20);
  crowded.targets.frames_per_second = 1e8 / 64;
  const auto too_much = refusal(crowded);
  expect(too_much, "64 DSP, 44 (220 %) more than the 20 left on 1 card");
  expect(too_much, "would fit on 4 cards of 'ku060' in a row");
  expect(too_much, "this cluster reaches 390625 frames/s");

  Problem cable = row({64, 64}, 2, 1);
  cable.cables[0].bytes_per_second = 1e6;
  cable.partitions = 2;
  cable.targets.frames_per_second = 1e5;
  expect(refusal(cable), "the cable between 'fpga0' and 'fpga1' would have to carry 100 bytes a frame");
  cable.cables.clear();
  expect(refusal(cable),
         "no two cards are joined by a cable, and each of the 2 partitions needs its own card");
  // A card has one DSP slice, so each layer needs 64 cycles.
  expect(refusal(cable), "even without --partitions, the model does not fit unless layers are split");
  for (auto& card : cable.cards) card.regions[0].available[kDsp] = 2;
  expect(refusal(cable), "without --partitions this cluster reaches 1562500 frames/s on 1 card");
  Problem apart = row({64, 64, 64}, 3, 8);
  apart.cables.pop_back();
  apart.partitions = 3;
  expect(refusal(apart), "cables join no more than 2 of its 3 cards");
  apart.partitions.reset();
  apart.targets.frames_per_second = 1e8 / 8;
  expect(refusal(apart), "24 DSP, 8 (50 %) more than the 16 left on 2 cards (no more are joined by cables)");

  Problem late = row({1024}, 1, 4);
  late.targets.max_latency_seconds = 1e-9;
  expect(refusal(late), "the least latency found is");
}

/// Returns a problem with a chain of layers on one card with 100 LUT and 10 DSP. `ways` has the LUT and DSP of each
/// implementation of a layer.
Problem two_kinds(std::size_t layers, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ways) {
  Problem problem = row(std::vector<std::uint64_t>(layers, 4), 1, 10);
  problem.cards[0].regions[0].available[kLut] = 100;
  for (auto& operation : problem.operations) {
    operation.implementations.clear();
    for (const auto& [lut, dsp] : ways) {
      Implementation way{"", 4, 1, 1};
      way.amounts[kLut] = lut;
      way.amounts[kDsp] = dsp;
      operation.implementations.push_back(way);
    }
  }
  return problem;
}

TEST(Explore, ARefusalNamesTheResourceWithTheSmallestShortage) {
  // One layer uses LUTs and one uses DSP slices. There is no room for a third layer, except with 120 LUT or 16 DSP.
  const auto one = refusal(two_kinds(3, {{60, 0}, {0, 8}}));
  expect(one,
         "the cards are full before layer 'conv2': what it has too little of is LUT, with 20 % more "
         "(120 instead of the 100 left to 'fpga0') all layers fit");
  expect(one, "it would fit on 2 cards of 'ku060' in a row");
  const auto other = refusal(two_kinds(3, {{90, 0}, {0, 6}}));
  expect(other, "what it has too little of is DSP, with 20 % more (12 instead of the 10 left to 'fpga0')");

  // More LUTs alone or more DSP slices alone never help, because both are short.
  const auto both = refusal(two_kinds(2, {{2000, 3}, {30, 900}, {60, 6}}));
  expect(both, "full before layer 'conv1'");
  expect(both, "what it has too little of is LUT and DSP, with 20 % more of each all layers fit");
}

TEST(Explore, RefusesInvalidTargetsAndCables) {
  Problem problem = row({64}, 1, 4);
  problem.targets.frames_per_second = 0;
  expect(refusal(problem, ErrorCode::kInvalidInput), "--target-fps must be above 0");
  problem.targets.frames_per_second.reset();
  problem.targets.max_latency_seconds = std::nan("");
  expect(refusal(problem, ErrorCode::kInvalidInput), "--max-latency must be above 0");
  Problem cable = row({64, 64}, 2, 4);
  cable.cables[0].bytes_per_second = 0;
  expect(refusal(cable, ErrorCode::kInternal), "must have a bandwidth above 0");
}

TEST(ExploreChoice, AcceptsAValidPlanAndNamesTheErrorInAnInvalidPlan) {
  Problem problem = row({64, 64}, 2, 8);
  Choice choice{{1, 0}, {0, 1}, {0, 0}, {3, 2}};  // the implementations with 8 and 4 multipliers
  const auto chosen = solution_of(problem, choice);
  ASSERT_TRUE(chosen.ok()) << chosen.error().message();
  EXPECT_EQ(verify(problem, *chosen), "");
  EXPECT_DOUBLE_EQ(chosen->interval_seconds, 16e-8);
  const auto refused = [&](auto change) {
    Choice changed = choice;
    change(changed);
    const auto result = solution_of(problem, changed);
    return result.ok() ? std::string("accepted") : result.error().message();
  };
  expect(refused([](auto& c) { c.place = {1, 0}; }), "out of order");
  expect(refused([](auto& c) { c.card = {0, 0}; }), "named twice");
  expect(refused([](auto& c) { c.card = {0, 7}; }), "not there");
  expect(refused([](auto& c) { c.place = {0, 0}; }), "a card holds nothing");
  expect(refused([](auto& c) { c.region[1] = 1; }), "to card 'fpga0', but to a region");
  expect(refused([](auto& c) { c.implementation[0] = 50; }),
         "the number of the chosen implementation is too high");
  expect(refused([](auto& c) { c.implementation[0] = 5; }), "32 DSP are needed, 8 are left");
  expect(refused([](auto& c) { c.implementation.clear(); }), "does not name every block");
  problem.targets.frames_per_second = 1e8;
  expect(refused([](auto&) {}), "misses its targets: 6250000 frames/s");
  problem.cables.clear();
  expect(refused([](auto&) {}), "tensor 't1' must pass between cards");
}

TEST(ExploreAnalysis, NamesTheBottleneckAndTheResourcesThatWouldRaiseTheRate) {
  Problem problem = row({1024, 64}, 1, 20);
  problem.targets.objective = Objective::kThroughput;
  const Analysis tight = explained(problem);
  EXPECT_EQ(tight.bottleneck, "'conv0' on fpga0 limits: 64 cycles a frame");
  ASSERT_EQ(tight.lifts.size(), 1U);
  EXPECT_EQ(tight.lifts[0], "70 % more DSP on fpga0 would give up to +100 %");
  EXPECT_DOUBLE_EQ(tight.places[0].roofline.compute, 20 * 2 * 1e8 / 1088);
  EXPECT_DOUBLE_EQ(tight.places[0].roofline.attained, 1e8 / 64);
  EXPECT_TRUE(std::isinf(tight.places[0].roofline.memory));

  // Multiplications in LUTs do not count against the DSP slices. An operation with few slices counts for at most the
  // work that these slices can do.
  Problem logic = row({1024, 64}, 1, 20);
  logic.operations[0].implementations = {{"of LUTs"}};
  logic.operations[1].implementations = {{"of both", 16}};
  logic.operations[1].implementations[0].amounts[kDsp] = 1;
  const Analysis luts = analyse(logic, solved(logic));
  EXPECT_DOUBLE_EQ(luts.places[0].roofline.compute, 20 * 2 * 1e8 / 32);
  EXPECT_GE(luts.places[0].roofline.compute, luts.places[0].roofline.attained);
  logic.operations[1].implementations[0].amounts[kDsp] = 0;
  EXPECT_TRUE(std::isinf(analyse(logic, solved(logic)).places[0].roofline.compute));

  Problem slow_cable = row({64, 64}, 2, 64);
  slow_cable.partitions = 2;
  slow_cable.cables[0].bytes_per_second = 1e8;
  slow_cable.targets.objective = Objective::kThroughput;
  const Analysis cable = analyse(slow_cable, solved(slow_cable));
  ASSERT_EQ(cable.cables.size(), 1U);
  EXPECT_NEAR(cable.cables[0].share, 1, 1e-9);
  EXPECT_EQ(cable.places[1].roofline.links, 1e6);
}

TEST(ExploreAnalysis, SuggestsTheSmallestImprovementUpToTheNextBottleneck) {
  // Two implementations need half the cycles. The analysis must suggest the one that needs the smaller increase of DSP
  // slices, although it needs many LUTs.
  Problem one = row({64}, 1, 100);
  for (auto& region : one.cards[0].regions) region.available[kLut] = 1000;
  one.operations[0].implementations = {{"now", 64}, {"many slices", 32}, {"many LUTs", 32}};
  auto& ways = one.operations[0].implementations;
  ways[0].amounts[kDsp] = 80;
  ways[1].amounts[kDsp] = 110;
  ways[1].amounts[kLut] = 900;
  ways[2].amounts[kDsp] = 150;
  one.targets.objective = Objective::kThroughput;
  EXPECT_EQ(explained(one).lifts.at(0), "10 % more DSP on fpga0 would give up to +100 %");

  Problem two = row({1024, 1024}, 2, 20);
  two.partitions = 2;
  two.targets.objective = Objective::kThroughput;
  // Both cards limit the rate equally, so the analysis must suggest more DSP slices for both.
  EXPECT_NE(explained(two).lifts.at(0).find(" more DSP on fpga0 and "), std::string::npos)
      << explained(two).lifts.at(0);
  // The second card is now a little faster than the first card, so the second card is the next bottleneck once the
  // first card is improved.
  two.operations[1].implementations = {{"little quicker", 60}};
  const Analysis capped = explained(two);
  EXPECT_EQ(capped.bottleneck, "'conv0' on fpga0 limits: 64 cycles a frame");
  EXPECT_NE(capped.lifts.at(0).find("up to +6.7 %, then 'conv1' on fpga1 limits"), std::string::npos)
      << capped.lifts.at(0);
}

TEST(ExploreAnalysis, ImprovementIsLimitedByOtherBlocksOnTheCard) {
  // The slowest layer could be twice as fast, but the other layer on the card needs at least 50 cycles.
  Problem beside = row({1024, 64}, 1, 20);
  beside.targets.objective = Objective::kThroughput;
  beside.operations[1].implementations = {{"at its best", 50}};
  Analysis analysis = explained(beside);
  EXPECT_EQ(analysis.bottleneck, "'conv0' on fpga0 limits: 64 cycles a frame");
  EXPECT_EQ(analysis.lifts.at(0),
            "60 % more DSP on fpga0 would give up to +28 %, then 'conv1' on fpga0 limits");
  beside.operations[1].implementations = {{"as slow", 64}};
  analysis = explained(beside);
  EXPECT_EQ(analysis.lifts.at(0),
            "no improvement: 'conv1' on fpga0 has no faster implementation; a replica could share its work");

  // The implementation with 25 cycles needs no more resources than the one with 32 cycles.
  Problem further = row({64}, 1, 100);
  further.operations[0].implementations = {{"now", 64}, {"next", 32}, {"as large", 25}, {"larger", 16}};
  auto& ways = further.operations[0].implementations;
  for (std::size_t i = 0; i < ways.size(); ++i) ways[i].amounts[kDsp] = std::array{80U, 120U, 120U, 200U}[i];
  further.targets.objective = Objective::kThroughput;
  EXPECT_EQ(explained(further).lifts.at(0), "20 % more DSP on fpga0 would give up to +156 %");
}

TEST(ExploreVerify, CountsTheCostOfALinkOnTheCardsAtBothEnds) {
  Problem problem = row({64, 64}, 2, 8);
  problem.partitions = 2;
  const Solution good = solved(problem);
  ASSERT_EQ(good.hops.size(), 1U);
  for (const auto place : good.card) {
    Problem dearer = problem;
    Card& card = dearer.cards[place];
    card.link[kLut] = card.regions[0].available[kLut];
    expect(verify(dearer, good), "card '" + card.name + "' has too little LUT");
  }
}

TEST(ExploreVerify, RecomputesEveryFigureOfASolution) {
  Problem problem = row({64, 64}, 2, 8);
  problem.partitions = 2;
  problem.targets.frames_per_second = 1e6;
  const Solution good = solved(problem);
  const auto with = [&](auto change) {
    Solution changed = good;
    change(changed);
    return verify(problem, changed);
  };
  expect(with([](auto& s) { s.interval_seconds *= 1.01; }), "interval_seconds is wrong");
  expect(with([](auto& s) { s.latency_seconds *= 0.99; }), "latency_seconds is wrong");
  expect(with([](auto& s) { ++s.crossing_bytes; }), "crossing_bytes is wrong");
  expect(with([](auto& s) { s.implementation[0] = 99; }), "implementation that does not exist");
  expect(with([](auto& s) { s.implementation[0] = 6; }), "too little DSP");
  expect(with([](auto& s) { s.implementation[0] = 0; }), "is wrong");
  expect(with([](auto& s) { s.region[0] = 3; }), "region that does not exist");
  expect(with([](auto& s) { s.hops.clear(); }), "no cable to go by");
  expect(with([](auto& s) { s.hops.push_back({1, 1, 1}); }), "an invalid route");
  Problem harder = problem;
  harder.targets.frames_per_second = 1e8;
  expect(verify(harder, good), "frame rate");
  harder = problem;
  harder.targets.max_latency_seconds = 1e-9;
  expect(verify(harder, good), "maximum latency is exceeded");
}

/// Makes a solution on one card where all layers use `implementation`, sets its `gap` (distance to the best
/// solution) and `exact` (whether it is proved to be the best), and returns the error of verify().
std::string claim(const Problem& problem, std::uint32_t implementation, double gap, bool exact = false) {
  const std::size_t count = problem.operations.size();
  Choice choice{{0}, {}, {}, {}};
  choice.place.assign(count, 0);
  choice.region.assign(count, 0);
  choice.implementation.assign(count, implementation);
  auto chosen = solution_of(problem, choice);
  EXPECT_TRUE(chosen.ok());
  EXPECT_EQ(verify(problem, *chosen), "") << "the gap of a plan written by hand is not known";
  chosen->gap = gap;
  chosen->exact = exact;
  return verify(problem, *chosen);
}

TEST(ExploreVerify, RefusesAnOptimalityGapThatAFasterFoldingOnTheSameCardsDisproves) {
  // A layer with 32 of the 64 DSP slices needs two cycles a frame; a layer with 8 slices needs eight cycles.
  Problem problem = row({64, 64}, 1, 64);
  for (const auto objective : {Objective::kCards, Objective::kThroughput}) {
    problem.targets.objective = objective;
    EXPECT_EQ(claim(problem, 5, 0, true), "");
    EXPECT_EQ(claim(problem, 3, 3.0), "");
    expect(claim(problem, 3, 2.9),
           "gap is wrong: with other implementations, the same cards reach a rate of 50000000");
    expect(claim(problem, 3, 0, true), "gap is wrong");
  }
  problem.targets.objective = Objective::kLatency;
  EXPECT_EQ(claim(problem, 5, 0, true), "");
  expect(claim(problem, 0, 0, true),
         "gap is wrong: with other implementations on the same cards, the latency is");
}

TEST(ExploreVerify, RefusesAnImpossibleOptimalityGap) {
  Problem problem = row({64, 64}, 1, 64);
  problem.targets.objective = Objective::kThroughput;
  expect(claim(problem, 5, -0.1), "gap is wrong");
  expect(claim(problem, 5, std::nan("")), "gap is wrong");
  expect(claim(problem, 5, 0.1, true), "it must be 0 if the solution is exact");
  EXPECT_EQ(claim(problem, 5, 1), "") << "one cycle is the least that a layer can take";
  expect(claim(problem, 5, 1.1), "no implementations are fast enough for the rate that the gap allows");
}

}  // namespace
}  // namespace millrace::compiler::explore::test_explore
