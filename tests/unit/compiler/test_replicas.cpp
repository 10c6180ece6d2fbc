#include "compiler/explore/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "brute_force.hpp"
#include "problems.hpp"
#include "tests/support/seed.hpp"

namespace millrace::compiler::explore::test_replicas {
namespace {

using Cards = std::vector<std::uint32_t>;

/// Returns the problem with only the given cards, all of which must be used.
Problem on(const Problem& problem, const Cards& cards) {
  Problem out = problem;
  out.cards.clear();
  out.cables.clear();
  out.replicas.reset();
  out.partitions = static_cast<std::uint32_t>(cards.size());
  for (const auto card : cards) out.cards.push_back(problem.cards[card]);
  for (const auto& cable : problem.cables) {
    const auto a = std::find(cards.begin(), cards.end(), cable.a);
    const auto b = std::find(cards.begin(), cards.end(), cable.b);
    if (a == cards.end() || b == cards.end()) continue;
    out.cables.push_back(cable);
    out.cables.back().a = static_cast<std::uint32_t>(a - cards.begin());
    out.cables.back().b = static_cast<std::uint32_t>(b - cards.begin());
  }
  return out;
}

std::vector<Cards> tuples(std::uint32_t cards, std::size_t size) {
  std::vector<Cards> out = {{}};
  for (std::size_t n = 0; n < size; ++n) {
    std::vector<Cards> longer;
    for (const Cards& tuple : out)
      for (std::uint32_t c = 0; c < cards; ++c) {
        if (std::find(tuple.begin(), tuple.end(), c) != tuple.end()) continue;
        longer.push_back(tuple);
        longer.back().push_back(c);
      }
    out = std::move(longer);
  }
  return out;
}

bool alike(const Problem& problem, const Cards& a, const Cards& b) {
  const auto cables = [&](std::uint32_t x, std::uint32_t y) {
    std::vector<std::pair<double, double>> out;
    for (const auto& c : problem.cables)
      if ((c.a == x && c.b == y) || (c.a == y && c.b == x))
        out.emplace_back(c.bytes_per_second, c.latency_seconds);
    return out;
  };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Card &x = problem.cards[a[i]], &y = problem.cards[b[i]];
    if (x.device != y.device) return false;  // cards of these tests differ only in the device
    for (std::size_t j = 0; j < i; ++j)
      if (cables(a[i], a[j]) != cables(b[i], b[j])) return false;
  }
  return true;
}

/// Returns the largest number of groups of cards that are like the group `first` and have no card in common.
std::size_t most_groups(const Problem& problem, const std::vector<Cards>& all, const Cards& first,
                        std::vector<bool> used) {
  std::size_t most = 0;
  for (const Cards& group : all) {
    if (std::any_of(group.begin(), group.end(), [&](auto c) { return used[c]; }) ||
        !alike(problem, first, group))
      continue;
    auto with = used;
    for (const auto c : group) with[c] = true;
    most = std::max(most, 1 + most_groups(problem, all, first, with));
  }
  return most;
}

struct Best {
  std::size_t cards = 0, replicas = 0;
  double rate = 0, latency = 0;
};

/// Returns the best solution. Tries every number of replicas on every group of cards. For each frame, the host needs
/// `host` seconds.
std::optional<Best> brute_force(const Problem& problem, double host = 0) {
  std::optional<Best> best;
  const auto count = static_cast<std::uint32_t>(problem.cards.size());
  const auto& targets = problem.targets;
  const auto consider = [&](const tests::Best& one, std::size_t replicas) {
    const Best now{static_cast<std::size_t>(one.cards) * replicas, replicas,
                   std::min(static_cast<double>(replicas) / one.interval, 1 / host), one.latency};
    const auto key = [&](const Best& b) {
      const auto cards = static_cast<double>(b.cards), n = static_cast<double>(b.replicas);
      switch (targets.objective) {
        case Objective::kCards:
          return problem.replicas || targets.frames_per_second ? std::array{cards, -b.rate, 0.0}
                                                               : std::array{n, cards, -b.rate};
        case Objective::kThroughput:
          return std::array{-b.rate, cards, 0.0};
        case Objective::kLatency:
          return std::array{n, b.latency, cards};
      }
      return std::array{0.0, 0.0, 0.0};
    };
    if (!best || key(now) < key(*best)) best = now;
  };
  for (std::uint32_t size = 1; size <= count; ++size) {
    const auto all = tuples(count, size);
    for (const Cards& cards : all) {
      if (!std::is_sorted(cards.begin(), cards.end())) continue;
      const std::size_t most = most_groups(problem, all, cards, std::vector<bool>(count, false));
      for (std::size_t replicas = problem.replicas.value_or(1); replicas <= most; ++replicas) {
        if (problem.replicas && replicas != *problem.replicas) continue;
        Problem part = on(problem, cards);
        if (targets.frames_per_second)
          part.targets.frames_per_second = *targets.frames_per_second / static_cast<double>(replicas);
        if (const auto one = tests::brute_force(part)) consider(*one, replicas);
      }
    }
  }
  return best;
}

/// Returns a problem with a random model and a few cards of one or two kinds, with cables of one or two speeds.
Problem random_problem(std::mt19937& random) {
  Problem problem = tests::random_problem(random);
  const auto up_to = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  problem.partitions.reset();
  const std::uint32_t count = 2 + up_to(3);
  if (problem.operations.size() > 3 && count > 3) {
    problem.operations.pop_back();
    problem.tensors.pop_back();
  }
  Card one = problem.cards.front(), other = problem.cards.back();
  one.regions.resize(1);
  other.regions.resize(1);
  other.device = "e";
  other.clock_hz = one.clock_hz * 1.5;
  problem.cards.clear();
  problem.cables.clear();
  for (std::uint32_t c = 0; c < count; ++c) {
    problem.cards.push_back(up_to(4) == 0 ? other : one);
    problem.cards.back().name = "fpga" + std::to_string(c);
    for (std::uint32_t to = 0; to < c; ++to)
      if (to + 1 == c || up_to(3) == 0) problem.cables.push_back({to, c, up_to(4) == 0 ? 2e9 : 1e9, 1e-7});
  }
  if (problem.targets.frames_per_second) *problem.targets.frames_per_second *= 2;
  if (up_to(3) == 0) problem.replicas = 1 + up_to(count);
  return problem;
}

using tests::expect;
using tests::row;

Solution solved(const Problem& problem) {
  return tests::verified(problem, solve_replicated(problem));
}

std::string refusal(const Problem& problem, ErrorCode code = ErrorCode::kDoesNotFit) {
  return tests::refusal_of(solve_replicated(problem), code);
}

TEST(Replicas, MatchBruteForceOnSmallRandomProblems) {
  const unsigned seed = millrace::tests::chosen_seed();
  std::mt19937 random(seed);
  int feasible = 0, several = 0, exact = 0;
  for (int round = 0; round < 1500; ++round) {
    const Problem problem = random_problem(random);
    const std::string where = "MILLRACE_SEED=" + std::to_string(seed) + " round " + std::to_string(round);
    const auto expected = brute_force(problem);
    const auto found = solve_replicated(problem);
    ASSERT_EQ(expected.has_value(), found.ok())
        << where << ": " << (found.ok() ? "found" : found.error().message());
    if (!expected) continue;
    ++feasible;
    several += found->replicas() > 1 ? 1 : 0;
    exact += found->exact ? 1 : 0;
    ASSERT_EQ(verify(problem, *found), "") << where;
    const double rate = static_cast<double>(found->replicas()) / found->interval_seconds;
    const auto equal = [&](double a, double b) { return std::abs(a - b) <= 2e-6 * std::abs(b); };
    const std::size_t cards = found->card.size() * found->replicas();
    switch (problem.targets.objective) {
      case Objective::kCards:
        EXPECT_EQ(cards, expected->cards) << where;
        EXPECT_TRUE(equal(rate, expected->rate)) << where << ": " << rate << " for " << expected->rate;
        break;
      case Objective::kThroughput:
        EXPECT_TRUE(equal(rate, expected->rate)) << where << ": " << rate << " for " << expected->rate;
        break;
      case Objective::kLatency:
        EXPECT_EQ(found->replicas(), expected->replicas) << where;
        EXPECT_TRUE(equal(found->latency_seconds, expected->latency))
            << where << ": " << found->latency_seconds << " for " << expected->latency;
        break;
    }
    ASSERT_TRUE(std::isfinite(found->gap)) << where;
    const double above = (1 + found->gap) * (1 + 2e-6);
    if (problem.targets.objective == Objective::kLatency) {
      EXPECT_LE(found->latency_seconds, expected->latency * above) << where << ": the bound does not hold";
    } else {
      EXPECT_GE(rate * above, expected->rate) << where << ": the bound does not hold";
    }
    EXPECT_TRUE(!found->exact || found->gap == 0) << where;
    if (problem.targets.objective == Objective::kThroughput && found->exact) {
      EXPECT_EQ(cards, expected->cards) << where;
    }
  }
  std::printf("MILLRACE_SEED=%u: %d feasible, %d with replicas, %d proven\n", seed, feasible, several, exact);
  EXPECT_GT(feasible, 400);
  EXPECT_GT(several, 100);
}

/// Returns the problem with a block on the host after the cards. The block needs `seconds` for each frame.
Problem with_host(Problem problem, double seconds) {
  Operation host{"host", 0, true, false, {problem.operations.back().outputs.front()}, {}};
  host.host_seconds = seconds;
  problem.operations.push_back(host);
  return problem;
}

TEST(Replicas, MatchBruteForceWhenTheHostLimitsTheRate) {
  const unsigned seed = millrace::tests::chosen_seed(2);
  std::mt19937 random(seed);
  int limited = 0, exact = 0;
  for (int round = 0; round < 1500; ++round) {
    Problem problem = random_problem(random);
    problem.targets = {};
    problem.targets.objective = Objective::kThroughput;
    const std::string where = "MILLRACE_SEED=" + std::to_string(seed) + " round " + std::to_string(round);
    const auto quickest = brute_force(problem);
    if (!quickest) continue;
    const double share = 0.1 + static_cast<double>(random() % 12) / 10;
    const double host = 1 / (quickest->rate * share);
    const auto expected = brute_force(problem, host);
    problem = with_host(std::move(problem), host);
    const auto found = solve_replicated(problem);
    ASSERT_TRUE(found.ok()) << where << ": " << found.error().message();
    ASSERT_EQ(verify(problem, *found), "") << where;
    const double rate = std::min(static_cast<double>(found->replicas()) / found->interval_seconds, 1 / host);
    EXPECT_NEAR(rate / expected->rate, 1, 2e-6) << where;
    const std::size_t cards = found->card.size() * found->replicas();
    if (share > 1) continue;
    EXPECT_EQ(cards, expected->cards) << where;
    EXPECT_EQ(found->gap, 0) << where;
    limited += expected->cards < quickest->cards ? 1 : 0;
    exact += found->exact ? 1 : 0;
  }
  std::printf("MILLRACE_SEED=%u: %d limited, %d exact\n", seed, limited, exact);
  EXPECT_GT(limited, 100);
  EXPECT_GT(exact, 100);
}

TEST(Replicas, UseNoMoreCardsThanTheHostCanFeed) {
  Problem problem = row({1024, 1024}, 9, 20);
  problem.targets.objective = Objective::kThroughput;
  const double alone = solved(problem).interval_seconds;
  problem = with_host(std::move(problem), alone / 2.5);
  const Solution three = solved(problem);
  EXPECT_EQ(three.replicas() * three.card.size(), 3U);
  EXPECT_TRUE(three.exact);
  EXPECT_EQ(three.gap, 0);
  problem.replicas = 5;
  EXPECT_EQ(solved(problem).replicas(), 5U);
  problem.replicas.reset();
  problem.operations.back().host_seconds = alone / 20;
  EXPECT_EQ(solved(problem).replicas(), 9U) << "the cards limit";
}

TEST(Replicas, OptimalityGapIgnoresTheHostEvenIfTheHostLimitsTheRate) {
  Problem problem = row({1024, 1024}, 2, 20);
  problem.targets.objective = Objective::kThroughput;
  problem = with_host(problem, 10 * solved(problem).interval_seconds);
  Solution limited = solved(problem);
  limited.gap = 0.5;  // says that other plans' cards may be faster, not that the host may be
  limited.exact = false;
  EXPECT_EQ(verify(problem, limited), "");
}

TEST(Replicas, NineReplicasOnNineCardsReachNineTimesTheRateOfOne) {
  Problem problem = row({1024, 1024}, 9, 20);
  problem.targets.objective = Objective::kThroughput;
  const Solution nine = solved(problem);
  EXPECT_EQ(nine.replicas(), 9U);
  EXPECT_EQ(nine.card.size(), 1U);
  EXPECT_TRUE(nine.exact);
  problem.cards.resize(1);
  problem.cables.clear();
  EXPECT_DOUBLE_EQ(nine.interval_seconds, solved(problem).interval_seconds);
}

TEST(Replicas, AreNotUsedIfOnePipelineOverAllCardsIsFaster) {
  Problem problem = row({1024, 1024}, 2, 20);
  for (auto& operation : problem.operations)
    for (auto& way : operation.implementations)
      way.amounts[kBram18] = 60;  // a card has 100, so it has room for one layer
  problem.targets.objective = Objective::kThroughput;
  const Solution solution = solved(problem);
  EXPECT_EQ(solution.replicas(), 1U);
  EXPECT_EQ(solution.card.size(), 2U);
}

TEST(Replicas, AreNotUsedIfFewerCardsReachTheSameRate) {
  // One card needs 30 cycles a frame, a chain of two cards needs 10. Three replicas on one card each are no faster than
  // that chain.
  Problem problem = row({64, 64}, 3, 8);
  for (auto& operation : problem.operations) {
    auto& ways = operation.implementations;
    ways.resize(2);
    ways[0].interval_cycles = 10;
    ways[0].amounts[kDsp] = 6;
    ways[1].interval_cycles = 30;
    ways[1].amounts[kDsp] = 2;
    for (auto& way : ways) way.fill_cycles = 2;
  }
  problem.targets.objective = Objective::kThroughput;
  const Solution solution = solved(problem);
  EXPECT_EQ(solution.replicas(), 1U);
  EXPECT_EQ(solution.card.size(), 2U);
  EXPECT_TRUE(solution.exact);
}

TEST(Replicas, ReplicasOfTwoCardsFitTwiceIntoAChainOfFiveCards) {
  Problem problem = row({1024, 1024}, 5, 20);
  for (auto& operation : problem.operations)
    for (auto& way : operation.implementations) way.amounts[kBram18] = 60;
  problem.targets.objective = Objective::kThroughput;
  const Solution solution = solved(problem);
  EXPECT_EQ(solution.replicas(), 2U);
  EXPECT_EQ(solution.card.size(), 2U);
  EXPECT_EQ(solution.gap, 0) << "single cards, which hold it at no rate, are no better";
  EXPECT_TRUE(solution.exact);
}

TEST(Replicas, OptimalityGapIsBoundedEvenWithTooManyCardGroupsToTry) {
  Problem problem = row(std::vector<std::uint64_t>(6, 64), 16, 20);  // the model needs two cards
  for (auto& operation : problem.operations)
    for (auto& way : operation.implementations) way.amounts[kBram18] = 33;
  problem.cables.clear();
  for (std::uint32_t a = 0; a < 16; ++a)
    for (std::uint32_t b = 0; b < a; ++b) problem.cables.push_back({b, a, 1.25e9, 5e-7});
  problem.targets.objective = Objective::kThroughput;
  const Solution most = solved(problem);
  // Five replicas on three cards each need 8 cycles, with two layers on a card. Eight replicas on two cards each would
  // need 16 cycles.
  EXPECT_EQ(most.replicas(), 5U);
  EXPECT_TRUE(most.exact) << most.gap;
  problem.targets.objective = Objective::kLatency;
  problem.replicas = 2;
  const Solution soonest = solved(problem);
  EXPECT_FALSE(soonest.exact);
  EXPECT_GT(soonest.gap, 0);
  EXPECT_LT(soonest.gap, 2);
}

TEST(Replicas, AreAsManyAsTheTargetRateNeeds) {
  Problem problem = row({1024}, 4, 16);
  problem.targets.frames_per_second = 1e8 / 64;
  EXPECT_EQ(solved(problem).replicas(), 1U);
  problem.targets.frames_per_second = 1.5e8 / 64;
  EXPECT_EQ(solved(problem).replicas(), 2U);
  problem.targets.frames_per_second = 4e8 / 64;
  EXPECT_EQ(solved(problem).replicas(), 4U);
  problem.targets.objective = Objective::kLatency;
  EXPECT_EQ(solved(problem).replicas(), 4U);
  problem.targets.frames_per_second = 5e8 / 64;
  expect(refusal(problem), "4 replicas on 4 cards reach 6250000 frames/s");
}

TEST(Replicas, LatencyObjectiveUsesTheFastestGroupOfEqualCards) {
  Problem problem = row({1024}, 4, 16);  // 64 cycles a frame on any card
  for (const std::size_t quick : {2U, 3U}) {
    problem.cards[quick].device = "quick";
    problem.cards[quick].clock_hz = 1.2e8;
  }
  problem.targets.objective = Objective::kLatency;
  problem.targets.frames_per_second = 3e6;  // needs two cards of either kind
  const Solution found = solved(problem);
  ASSERT_EQ(found.replicas(), 2U);
  EXPECT_GE(found.card[0], 2U);
  EXPECT_GE(found.copies[0][0], 2U);
}

TEST(Replicas, OptimalityGapIsReportedUnlessFewerCardsAreProvedImpossible) {
  // The search finds that replicas on two cards each meet the latency target. It does not prove that replicas on one
  // card each miss it.
  Problem problem = row(std::vector<std::uint64_t>(12, 1024), 4, 40);
  problem.replicas = 2;
  problem.targets.max_latency_seconds = 0.6 * solved(problem).latency_seconds;
  const Solution found = solved(problem);
  ASSERT_EQ(found.card.size(), 2U);
  EXPECT_FALSE(found.exact);
  EXPECT_GE(found.gap, 1) << "two cards instead of four";
}

TEST(Replicas, RequestedNumberOfReplicasIsPlannedOrRefused) {
  Problem problem = row({64, 64}, 4, 16);
  problem.replicas = 3;
  EXPECT_EQ(solved(problem).replicas(), 3U);
  problem.partitions = 2;
  expect(refusal(problem), "--replicas 3: each of 2 cards, cluster 'c' has 4 cards; request at most 2");
  problem.replicas = 2;
  const Solution pairs = solved(problem);
  EXPECT_EQ(pairs.card.size(), 2U);
  EXPECT_EQ(pairs.replicas(), 2U);
  problem.partitions.reset();
  problem.replicas = 5;
  expect(refusal(problem), "cluster 'c' has 4 cards; request at most 4");
  problem.replicas = 4'000'000'000;
  expect(refusal(problem), "request at most 4");
  problem.replicas = 0;
  expect(refusal(problem, ErrorCode::kInvalidInput), "at least one is needed");
  problem.replicas = 4;
  problem.cards[2].device = "u280";
  expect(refusal(problem),
         "does not have 4 groups of cards; all groups of cards need the same devices and cables");
  problem.replicas = 2;
  for (auto& way : problem.operations[1].implementations) way.amounts[kBram18] = 150;
  expect(refusal(problem), "each on 1 card: ");
}

TEST(Replicas, VerifyFindsInvalidReplicas) {
  Problem problem = row({64, 64}, 5, 16);
  problem.cards[4].device = "u280";
  problem.replicas = 2;
  problem.partitions = 2;
  Solution solution = solved(problem);
  ASSERT_EQ(solution.card, (Cards{0, 1}));
  const auto with = [&](const Cards& copy) {
    Solution altered = solution;
    altered.copies = {copy};
    return verify(problem, altered);
  };
  EXPECT_EQ(with({2, 3}), "");
  expect(with({1, 2}), "card 'fpga1' is used twice");
  expect(with({2, 4}), "card 'fpga4' (u280) stands for 'fpga1' (ku060)");
  expect(with({2}), "a replica has 1 card, but the first replica has 2");
  expect(with({2, 9}), "does not exist");
  problem.cards.push_back(problem.cards[0]);
  expect(with({2, 5}), "are not cabled as");
  solution.copies.clear();
  expect(verify(problem, solution), "the number of replicas differs from the requested number");
  problem.replicas.reset();
  problem.targets.frames_per_second = 1.5 / solution.interval_seconds;
  expect(verify(problem, solution), "the required frame rate is not reached");
  solution.copies = {{2, 3}};
  EXPECT_EQ(verify(problem, solution), "");
}

}  // namespace
}  // namespace millrace::compiler::explore::test_replicas
