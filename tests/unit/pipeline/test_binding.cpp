#include "runtime/pipeline/binding.hpp"

#include <gtest/gtest.h>

#include <set>

#include "runtime/plan/image_abi.hpp"
#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests::test_binding {
namespace {

using namespace runtime;
using runtime::pipeline::bind_endpoints;
using runtime::pipeline::Binding;

bool all_free(const plan::ClusterCard&) {
  return true;
}

Plan chain(std::uint32_t cards) {
  PlanBuilder builder;
  builder.input("x");
  std::string last = "x";
  for (std::uint32_t i = 0; i < cards; ++i) {
    const std::string name = "p" + std::to_string(i);
    builder.card(name, {last}, 1);
    last = name;
  }
  builder.output("y", last);
  return builder.build();
}

Result<Binding> bind(const Plan& plan, const plan::Cluster& cluster) {
  return bind_endpoints(plan.deployment, plan.records, cluster, all_free);
}

TEST(Binding, BindsEachChannelOfAChainToACable) {
  const Plan plan = chain(3);
  const plan::Cluster cluster = chain_cluster(3);
  const auto bound = bind(plan, cluster);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  ASSERT_EQ(bound->cards.size(), 3U);
  ASSERT_EQ(bound->channels.size(), 2U);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(bound->cards[i].card, i);
  EXPECT_EQ(bound->cards[1].links.size(), 2U);
  const card::LinkRow& sent = bound->cards[0].links.at(0).row;
  const card::LinkRow& received = bound->cards[1].links.at(0).row;
  EXPECT_EQ(sent.tag, received.tag);
  EXPECT_EQ(sent.connector, cluster.cables[0].a.connector);
  EXPECT_EQ(received.connector, cluster.cables[0].b.connector);
  EXPECT_EQ(sent.packet_bytes, 8U);
  EXPECT_EQ(sent.credits, 4U);
}

TEST(Binding, FindsAChainForAnyOrderOfTheCards) {
  plan::Cluster cluster = chain_cluster(4);
  cluster.cables.clear();
  add_cable(cluster, "fpga2", "fpga0");
  add_cable(cluster, "fpga3", "fpga2");
  const auto bound = bind(chain(3), cluster);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_EQ(bound->cards[1].card, 2U);  // card 2 is in the middle
  EXPECT_EQ(std::set<std::uint32_t>({bound->cards[0].card, bound->cards[2].card}),
            std::set<std::uint32_t>({0U, 3U}));
}

TEST(Binding, RefusesATriangleOfChannelsWithoutATriangleOfCables) {
  PlanBuilder builder;
  builder.input("x").card("a", {"x"}, 1).card("b", {"a"}, 1).card("c", {"a", "b"}, 1).output("y", "c");
  const Plan plan = builder.build();
  plan::Cluster cluster = chain_cluster(3);
  const auto refused = bind(plan, cluster);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.error().message().find("endpoint 'on_c'"), std::string::npos)
      << refused.error().message();
  EXPECT_NE(refused.error().message().find("channel"), std::string::npos) << refused.error().message();
  add_cable(cluster, "fpga0", "fpga2");
  const auto bound = bind(plan, cluster);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_EQ(bound->channels.size(), 3U);
}

TEST(Binding, RefusesAClusterWithTooFewCardsOfAKindAndStatesHowManyItHas) {
  const auto refused = bind(chain(3), chain_cluster(2));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.error().message().find("'on_p2' needs a card of kind 'test'"), std::string::npos)
      << refused.error().message();
  EXPECT_NE(refused.error().message().find("has 2"), std::string::npos) << refused.error().message();
  EXPECT_FALSE(bind(chain(1), chain_cluster(3, "other")).ok());
}

TEST(Binding, SkipsCardsInUse) {
  const Plan plan = chain(1);
  const plan::Cluster cluster = chain_cluster(3);
  const auto bound = bind_endpoints(plan.deployment, plan.records, cluster,
                                    [](const plan::ClusterCard& card) { return card.name == "fpga2"; });
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->cards[0].card, 2U);
  const auto refused =
      bind_endpoints(plan.deployment, plan.records, cluster, [](const plan::ClusterCard&) { return false; });
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("3 in use"), std::string::npos) << refused.error().message();
}

Result<Binding> bind_for(const Plan& plan, const plan::Cluster& cluster, std::uint32_t copies) {
  return bind_endpoints(
      plan.deployment, plan.records, cluster, all_free,
      [](const plan::ClusterCard&, const plan::Image&) { return false; }, copies);
}

TEST(Binding, LeavesCardsForFurtherReplicas) {
  // Three cables connect the cards in the order fpga2, fpga0, fpga1, fpga3. A replica on the middle two cards leaves no
  // two connected cards for another replica.
  plan::Cluster cluster = chain_cluster(4);
  cluster.cables.clear();
  add_cable(cluster, "fpga0", "fpga1");
  add_cable(cluster, "fpga0", "fpga2");
  add_cable(cluster, "fpga1", "fpga3");
  const Plan plan = chain(2);
  const auto alone = bind(plan, cluster);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->cards[1].card, 1U) << "alone, the replica may leave fpga2 and fpga3, which no cable joins";
  const auto first = bind_for(plan, cluster, 2);
  ASSERT_TRUE(first.ok()) << first.error().message();
  ASSERT_EQ(first->cards.size(), 2U);
  EXPECT_EQ(first->cards[0].card, 0U);
  EXPECT_EQ(first->cards[1].card, 2U);
  EXPECT_EQ(first->channels.size(), 1U);
  EXPECT_EQ(first->cards[0].links.size(), 1U);
}

TEST(Binding, RefusesMoreReplicasThanTheClusterHolds) {
  const auto few = bind_for(chain(2), chain_cluster(5), 3);
  ASSERT_FALSE(few.ok());
  EXPECT_EQ(few.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(few.error().message().find("has 5 of them, and the deployment needs 6 or more for 3 replicas"),
            std::string::npos)
      << few.error().message();
  plan::Cluster cluster = chain_cluster(4);
  cluster.cables.resize(2);
  const auto apart = bind_for(chain(2), cluster, 2);
  ASSERT_FALSE(apart.ok());
  EXPECT_NE(apart.error().message().find("2 replicas are requested"), std::string::npos)
      << apart.error().message();
  EXPECT_TRUE(bind_for(chain(1), chain_cluster(64), 64).ok());
}

TEST(Binding, ChannelsOfOneCableHaveDistinctTags) {
  PlanBuilder builder;
  builder.input("x").card("a0", {"x"}, 1, "left").card("a1", {"x"}, 2, "left");
  builder.card("b", {"a0", "a1"}, 3, "right").output("y", "b");
  const auto bound = bind(builder.build(), chain_cluster(2));
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  ASSERT_EQ(bound->cards[0].links.size(), 2U);
  EXPECT_NE(bound->cards[0].links[0].row.tag, bound->cards[0].links[1].row.tag);
  EXPECT_NE(bound->cards[0].links[0].row_index, bound->cards[0].links[1].row_index);
}

TEST(Binding, ChannelsAreSpreadOverSeveralCables) {
  PlanBuilder builder;
  builder.input("x").card("a0", {"x"}, 1, "left").card("a1", {"x"}, 2, "left");
  builder.card("b", {"a0", "a1"}, 3, "right").output("y", "b");
  plan::Cluster cluster = chain_cluster(2);
  add_cable(cluster, "fpga1", "fpga0");
  const auto bound = bind(builder.build(), cluster);
  ASSERT_TRUE(bound.ok());
  EXPECT_NE(bound->cards[0].links[0].row.connector, bound->cards[0].links[1].row.connector);
}

TEST(Binding, RefusesMoreChannelsThanTagsOnOneCable) {
  PlanBuilder builder;
  builder.input("x");
  std::string last = "x";
  for (std::uint32_t i = 0; i <= plan::abi::kMaxTags; ++i) {
    const std::string n = std::to_string(i);
    builder.card("a" + n, {"x"}, 1, "left").card("b" + n, {"a" + n}, 1, "right");
    last = "b" + n;
  }
  builder.output("y", last);
  const Plan plan = builder.build();
  plan::Cluster cluster = chain_cluster(2);
  EXPECT_FALSE(bind(plan, cluster).ok());
  add_cable(cluster, "fpga0", "fpga1");
  EXPECT_TRUE(bind(plan, cluster).ok());
}

TEST(Binding, RefusesAnImageWithoutTheLinkPort) {
  Plan plan = chain(2);
  plan.records.at("image_on_p1").partitions[0].ports[0].name = "other";
  const auto refused = bind(plan, chain_cluster(2));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(refused.error().message().find("image_on_p1"), std::string::npos) << refused.error().message();
}

TEST(Binding, RefusesAClusterWithoutCablesInBoundedTime) {
  plan::Cluster cluster = chain_cluster(40);
  cluster.cables.clear();
  EXPECT_FALSE(bind(chain(20), cluster).ok());
}

TEST(Binding, NeedsNoCableForAChannelWhoseTransportIsMpi) {
  Plan plan = chain(2);
  for (plan::Channel& channel : plan.deployment.channels) {
    if (channel.transport == plan::Transport::kAurora) channel.transport = plan::Transport::kMpi;
  }
  plan::Cluster cluster = chain_cluster(2);
  cluster.cables.clear();
  const auto bound = bind(plan, cluster);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_TRUE(bound->channels.empty());
  EXPECT_TRUE(bound->cards[0].links.empty() && bound->cards[1].links.empty());
}

TEST(Binding, AChannelUsesOnlyCablesWithItsProtocol) {
  Plan plan = chain(2);
  for (plan::Channel& channel : plan.deployment.channels)
    if (channel.transport == plan::Transport::kAurora) channel.transport = plan::Transport::kUdp;
  plan::Cluster cluster = chain_cluster(2);
  const auto refused = bind(plan, cluster);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.error().message().find("protocol: udp"), std::string::npos) << refused.error().message();
  add_cable(cluster, "fpga0", "fpga1");
  cluster.cables.back().protocol = plan::CableProtocol::kUdp;
  const auto bound = bind(plan, cluster);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_EQ(bound->cards[0].links.at(0).row.connector, cluster.cables.back().a.connector);
}

TEST(Binding, PrefersCardsThatAlreadyHoldTheImageIfCablesAllow) {
  const Plan plan = chain(2);
  const plan::Cluster cluster = chain_cluster(4);
  const auto bound_where = [&](const std::string& card, std::uint32_t image) {
    return bind_endpoints(plan.deployment, plan.records, cluster, all_free,
                          [&, image](const plan::ClusterCard& at, const plan::Image& one) {
                            return at.name == card && one.name == plan.deployment.images[image].name;
                          });
  };
  auto bound = bound_where("fpga2", 0);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_EQ(bound->cards[0].card, 2U);
  EXPECT_EQ(bound->cards[1].card, 1U);
  bound = bound_where("fpga3", 1);  // fpga3 has no cable to fpga0, which gets the first endpoint
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->cards[0].card, 0U);
  EXPECT_EQ(bound->cards[1].card, 1U);
}

}  // namespace
}  // namespace millrace::tests::test_binding
