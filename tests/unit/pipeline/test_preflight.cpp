// Tests the pre-flight check with fake cards: cards that are missing, fail or are in use, and several replicas.
// tests/integration/test_devices_check.cpp tests how it traces cables.
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/log.hpp"
#include "runtime/pipeline/preflight.hpp"
#include "tests/unit/pipeline/world.hpp"

namespace millrace::tests::test_preflight {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using pipeline::CableCheck;
using pipeline::CardCheck;
using pipeline::Preflight;

class PreflightCheck : public testing::Test {
 protected:
  PreflightCheck() : world_(chain_of_three(), chain_cluster(3)), source_(world_.source()) {
    log::configure(log::Level::kOff, false);
  }
  Preflight check() {
    auto found = pipeline::check_before_traffic(*world_.deployment(), world_.cluster(), {}, 1, source_,
                                                {.up = 50ms, .trace = 5ms});
    EXPECT_TRUE(found.ok()) << found.error().message();
    return found.ok() ? std::move(*found) : Preflight();
  }

  FakeWorld world_;
  pipeline::CardSource source_;
};

TEST_F(PreflightCheck, FindsEverythingReadyAndLeavesTheCardsFree) {
  const Preflight found = check();
  ASSERT_EQ(found.cards.size(), 3U);
  for (const CardCheck& card : found.cards) EXPECT_EQ(card.state, CardCheck::State::kReady) << card.problem;
  ASSERT_EQ(found.cables.size(), world_.cluster().cables.size());
  for (const CableCheck& cable : found.cables)
    EXPECT_EQ(cable.state, CableCheck::State::kUp) << cable.cable << cable.problem;
  auto opened = open_on(world_);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  TestFrame frame(1, 1, 100);
  EXPECT_TRUE((*opened)->infer(frame.frame).ok());
}

TEST_F(PreflightCheck, TellsAMissingCardFromOneThatDoesNotLoad) {
  const auto open = source_.open;
  source_.open = [&](const plan::ClusterCard& card, std::uint32_t index) {
    if (index == 0)
      return Result<std::unique_ptr<card::Card>>(Error(ErrorCode::kNotFound, "XRT has no such device"));
    return open(card, index);
  };
  world_.refuse_loads(2, 1);
  const Preflight found = check();
  EXPECT_EQ(found.cards.at(0).state, CardCheck::State::kMissing);
  EXPECT_NE(found.cards.at(0).problem.find("XRT has no such device"), std::string::npos);
  EXPECT_EQ(found.cards.at(1).state, CardCheck::State::kReady) << "the other cards are checked all the same";
  EXPECT_EQ(found.cards.at(2).state, CardCheck::State::kFailed);
  for (const CableCheck& cable : found.cables) {
    EXPECT_EQ(cable.state, CableCheck::State::kUntested);
    EXPECT_NE(cable.problem.find("is not ready"), std::string::npos) << cable.problem;
  }
}

TEST_F(PreflightCheck, ResetsACardThatTheDriverHasTakenOutOfUse) {
  world_.kill(1);
  world_.support_resets(1, {card::ResetStep::kDevice});
  const Preflight found = check();
  for (const CardCheck& card : found.cards) EXPECT_EQ(card.state, CardCheck::State::kReady) << card.problem;
}

TEST_F(PreflightCheck, RefusesCardsThatAreInUse) {
  auto opened = open_on(world_);
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  const auto found = pipeline::check_before_traffic(*world_.deployment(), world_.cluster(), {}, 1, source_);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(found.error().message().find("in use"), std::string::npos) << found.error().message();
}

TEST_F(PreflightCheck, SaysThatCablesAreDown) {
  world_.take_cables_down(true);
  const Preflight found = check();
  for (const CableCheck& cable : found.cables) {
    EXPECT_EQ(cable.state, CableCheck::State::kDown);
    EXPECT_NE(cable.problem.find("no signal at"), std::string::npos) << cable.problem;
  }
}

TEST(PreflightOfReplicas, ChecksTheCardsOfEveryReplica) {
  FakeWorld world(chain_of_three(), chain_cluster(7));
  const auto found =
      pipeline::check_before_traffic(*world.deployment(), world.cluster(), {}, 2, world.source());
  ASSERT_TRUE(found.ok()) << found.error().message();
  ASSERT_EQ(found->cards.size(), 7U);
  std::set<std::string> names;
  for (const CardCheck& card : found->cards) names.insert(card.card);
  EXPECT_EQ(names.size(), 7U) << "each replica has cards of its own";
  EXPECT_EQ(found->cards.at(5).replica, 1U);
  EXPECT_EQ(found->cards.at(5).state, CardCheck::State::kReady);
  EXPECT_EQ(found->cards.at(6).state, CardCheck::State::kUnused);
}

}  // namespace
}  // namespace millrace::tests::test_preflight
