#include "runtime/pipeline/schedule.hpp"

#include <gtest/gtest.h>

#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests::test_schedule {
namespace {

using namespace runtime;
using runtime::pipeline::derive_schedule;
using runtime::pipeline::Schedule;

Schedule derive(const Plan& plan) {
  auto derived = derive_schedule(plan.deployment, plan.records);
  EXPECT_TRUE(derived.ok()) << derived.error().message();
  return derived.ok() ? *derived : Schedule{};
}

TEST(Schedule, HostStagesRunAtSubmissionOrWhenTheResultsOfCardsArrive) {
  PlanBuilder builder;
  builder.input("x")
      .host("before", {"x"}, 1)
      .card("p", {"before"}, 2)
      .host("after", {"p"}, 3)
      .output("y", "after");
  const Schedule schedule = derive(builder.build());
  ASSERT_EQ(schedule.early.size(), 2U);
  EXPECT_EQ(schedule.tasks[schedule.early[0]].kind, Schedule::TaskKind::kStage);
  EXPECT_EQ(schedule.tasks[schedule.early[1]].kind, Schedule::TaskKind::kIngress);
  ASSERT_EQ(schedule.egresses.size(), 1U);
  const auto& readers = schedule.readers[schedule.egresses[0].value.value()];
  ASSERT_EQ(readers.size(), 1U);
  EXPECT_EQ(schedule.tasks[readers[0]].kind, Schedule::TaskKind::kStage);
  EXPECT_EQ(schedule.tasks.back().kind, Schedule::TaskKind::kFinish);
  EXPECT_EQ(schedule.tasks.back().waits, 1U);
  EXPECT_TRUE(schedule.kept_inputs.empty());
}

TEST(Schedule, KeepsAModelInputUntilALaterHostStageHasReadIt) {
  PlanBuilder builder;
  builder.input("x").input("z").card("p", {"x"}, 2).host("join", {"p", "z"}, 3).output("y", "join");
  const Schedule schedule = derive(builder.build());
  EXPECT_EQ(schedule.kept_inputs, std::vector<std::uint32_t>{1});
}

TEST(Schedule, AHostStageThatReadsAResultTwiceWaitsForTheResultOnlyOnce) {
  PlanBuilder builder;
  builder.input("x")
      .card("a", {"x"}, 1)
      .card("b", {"x"}, 2)
      .host("join", {"a", "b"}, 0)
      .host("twice", {"a", "a"}, 0);
  builder.output("y", "join").output("z", "twice");
  const Schedule schedule = derive(builder.build());
  std::vector<std::uint32_t> waits;
  for (const Schedule::Task& task : schedule.tasks) {
    if (task.kind == Schedule::TaskKind::kStage) waits.push_back(task.waits);
  }
  EXPECT_EQ(waits, (std::vector<std::uint32_t>{2, 1}));
  EXPECT_EQ(schedule.tasks.back().waits, 2U);
}

TEST(Schedule, RefusesADeploymentThatUsesNoCard) {
  PlanBuilder builder;
  builder.input("x").host("h", {"x"}, 1).output("y", "h");
  const Plan plan = builder.build();
  const auto refused = derive_schedule(plan.deployment, plan.records);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnsupported);
}

// A mistake that make() adds to a plan. derive_schedule() must refuse it and name the partition and the port.
struct Mistake {
  const char* what;
  void (*make)(Plan&);
  const char* named;
};

class ScheduleMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ScheduleMistakes, ErrorsNameThePartitionAndThePort) {
  PlanBuilder builder;
  builder.input("x").host("h", {"x"}, 1).card("p", {"h"}, 2).output("y", "p");
  Plan plan = builder.build();
  GetParam().make(plan);
  const auto refused = derive_schedule(plan.deployment, plan.records);
  ASSERT_FALSE(refused.ok()) << GetParam().what;
  EXPECT_NE(refused.error().message().find(GetParam().named), std::string::npos) << refused.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Schedule, ScheduleMistakes,
    testing::Values(
        Mistake{"a port without a channel",
                [](Plan& p) { p.deployment.channels.erase(p.deployment.channels.begin() + 1); },
                "'p.in0' has no channel"},
        Mistake{"a port with two", [](Plan& p) { p.deployment.channels.push_back(p.deployment.channels[1]); },
                "'p.in0'"},
        Mistake{"another number of bytes",
                [](Plan& p) { p.records.begin()->second.partitions[0].ports[0].elements = 4; },
                "'p.in0' takes 8 bytes"},
        Mistake{"a slice", [](Plan& p) { p.deployment.channels[1].slice.stride = 2; },
                "'h->p' carries a slice"},
        Mistake{"an unknown producer", [](Plan& p) { p.deployment.channels[1].producer.partition = "q"; },
                "'p.in0' has no channel"},
        Mistake{"a link into the host",
                [](Plan& p) { p.deployment.channels[0].transport = plan::Transport::kAurora; }, "'h.in0'"}),
    [](const auto& test) { return "case" + std::to_string(test.index); });

}  // namespace
}  // namespace millrace::tests::test_schedule
