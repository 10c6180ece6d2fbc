// Tests tighten_regions(), which makes regions smaller for the next search if FIFOs and adapters do not fit.
#include "compiler/planning/search.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/partition.hpp"
#include "problems.hpp"

namespace millrace::compiler::test_tighten {
namespace {

using explore::kLut;

constexpr std::uint64_t kLuts = 1000;  // the LUTs of each card

/// Searches for the best plan of the problem and returns the plan without FIFOs and adapters.
Predicted found(const explore::Problem& problem) {
  Lowered lowered;
  lowered.problem = problem;
  Predicted plan;
  plan.lowered = std::make_shared<const Lowered>(std::move(lowered));
  plan.solution = explore::tests::verified(problem, explore::solve_replicated(problem));
  plan.analysis = explore::analyse(problem, plan.solution);
  return plan;
}

explore::Problem row_of(std::uint32_t cards, explore::Objective objective) {
  explore::Problem problem = explore::tests::row({16, 16}, cards, 64);
  for (auto& card : problem.cards) card.regions[0].available[kLut] = kLuts;
  problem.targets.objective = objective;
  return problem;
}

TEST(TightenRegions, ChangesNoLimitIfThePlanFits) {
  const Predicted plan = found(row_of(1, explore::Objective::kCards));
  explore::Problem problem = plan.lowered->problem;
  EXPECT_FALSE(tighten_regions(plan, problem));
  EXPECT_EQ(problem.cards[0].regions[0].available, plan.lowered->problem.cards[0].regions[0].available);
}

/// Blocks use a quarter of the card. With FIFOs and adapters, the design uses 1 % more LUTs than the card has. A search
/// with only 1 % fewer LUTs would find the same plan again, so the region must shrink more.
TEST(TightenRegions, ExcludesAPlanWhoseFifosDoNotFit) {
  Predicted plan = found(row_of(1, explore::Objective::kCards));
  auto& used = plan.analysis.places[0].regions[0].used[kLut];
  ASSERT_LT(used, kLuts / 3);
  used = kLuts + kLuts / 100;
  explore::Problem problem = plan.lowered->problem;
  ASSERT_TRUE(tighten_regions(plan, problem));
  const auto next = explore::tests::verified(problem, explore::solve_replicated(problem));
  EXPECT_NE(next.implementation, plan.solution.implementation);
}

TEST(TightenRegions, GivesEveryReplicaTheSameResourceLimits) {
  Predicted plan = found(row_of(2, explore::Objective::kThroughput));
  ASSERT_EQ(plan.solution.replicas(), 2U);
  plan.analysis.places[0].regions[0].used[kLut] = kLuts + kLuts / 100;
  explore::Problem problem = plan.lowered->problem;
  ASSERT_TRUE(tighten_regions(plan, problem));
  EXPECT_EQ(problem.cards[0].regions[0].available, problem.cards[1].regions[0].available);
  const auto next = explore::tests::verified(problem, explore::solve_replicated(problem));
  EXPECT_EQ(next.replicas(), 2U);
  EXPECT_NE(next.implementation, plan.solution.implementation);
}

}  // namespace
}  // namespace millrace::compiler::test_tighten
