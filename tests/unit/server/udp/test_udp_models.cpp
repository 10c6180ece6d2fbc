#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/udp/counters.hpp"
#include "server/udp/models.hpp"
#include "tests/unit/server/udp/fakes.hpp"

namespace millrace::server::udp::test_udp_models {
namespace {

using tests::FakePipeline;
using tests::Frame;
using Outcome = ModelDirectory::Outcome;

class UdpRegistryDirectory : public ::testing::Test {
 protected:
  std::shared_ptr<models::Model> model(const std::string& name, const std::string& version,
                                       std::uint32_t bytes = 100) {
    auto pipeline = std::make_shared<FakePipeline>(
        FakePipeline::Mode::kInline, std::vector<std::uint32_t>{bytes}, std::vector<std::uint32_t>{10});
    return std::make_shared<models::Model>(name, version, std::move(pipeline), metrics->model(name, version));
  }
  Outcome look(std::uint32_t handle) {
    std::shared_ptr<ServedModel> out;
    return directory.by_handle(handle, out);
  }

  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create(
      "test", metrics::Compatibility::kNone, {metrics::Transport::kHttp, metrics::Transport::kUdp});
  models::Registry registry;
  RegistryDirectory directory{registry};
};

TEST_F(UdpRegistryDirectory, HandlesChangeWhenModelsArePublishedReplacedOrWithdrawn) {
  EXPECT_EQ(directory.by_name("a", ""), nullptr);
  for (const std::uint32_t handle : {0U, 1U, 0x10001U, 0xFFFFFFFFU})
    EXPECT_EQ(look(handle), Outcome::kUnknown);
  ASSERT_TRUE(registry.publish(model("a", "1")).ok());
  ASSERT_TRUE(registry.publish(model("b", "1", 200)).ok());
  const auto a = directory.by_name("a", ""), b = directory.by_name("b", "1");
  ASSERT_TRUE(a && b);
  EXPECT_NE(a->handle, 0U);
  EXPECT_NE(a->handle, b->handle);
  EXPECT_EQ(b->input_bytes, 200U);
  EXPECT_EQ(look(a->handle), Outcome::kFound);
  const auto by_version = directory.by_name("a", "1");
  EXPECT_NE(by_version->handle, a->handle) << "one handle means the newest version, the other version 1";

  ASSERT_TRUE(registry.publish(model("a", "2")).ok());
  EXPECT_NE(directory.by_name("a", "")->handle, a->handle);
  EXPECT_EQ(look(a->handle), Outcome::kStale) << "another version is the newest";
  EXPECT_EQ(directory.by_name("a", "1"), nullptr) << "version 2 replaced it";
  EXPECT_EQ(look(by_version->handle), Outcome::kUnknown);

  ASSERT_TRUE(registry.publish(model("a", "1")).ok());
  EXPECT_EQ(look(by_version->handle), Outcome::kStale);
  EXPECT_EQ(look(b->handle), Outcome::kFound);
  const std::uint32_t again = directory.by_name("a", "1")->handle;
  EXPECT_EQ(look(again), Outcome::kFound);
  registry.withdraw(*registry.snapshot()->find("a", ""));
  EXPECT_EQ(look(again), Outcome::kUnknown);
  EXPECT_EQ(directory.by_name("a", "1"), nullptr);
  ASSERT_TRUE(registry.publish(model("a", "1")).ok());
  EXPECT_EQ(look(again), Outcome::kStale);
}

TEST_F(UdpRegistryDirectory, TableRowsOfWithdrawnVersionsAreReusedWithNewHandles) {
  ASSERT_TRUE(registry.publish(model("stays", "1")).ok());
  const std::uint32_t stays = directory.by_name("stays", "1")->handle;
  std::vector<std::uint32_t> handles;
  std::uint32_t places = 0;
  for (std::uint32_t version = 1; version <= 3 * RegistryDirectory::kKeptHandles; ++version) {
    const std::string name = std::to_string(version);
    ASSERT_TRUE(registry.publish(model("a", name)).ok());
    handles.push_back(directory.by_name("a", name)->handle);
    places = std::max(places, handles.back() & 0xFFFFU);
    registry.withdraw(*registry.snapshot()->find("a", name));
  }
  EXPECT_EQ(places, RegistryDirectory::kKeptHandles);
  EXPECT_EQ(std::set<std::uint32_t>(handles.begin(), handles.end()).size(), handles.size());
  for (const std::uint32_t handle : handles) EXPECT_EQ(look(handle), Outcome::kUnknown);
  EXPECT_EQ(look(stays), Outcome::kFound);
}

TEST_F(UdpRegistryDirectory, AWaitingFrameIsHandedOverIfItsClientNamedNoVersion) {
  ASSERT_TRUE(registry.publish(model("a", "1")).ok());
  const auto newest = directory.by_name("a", ""), pinned = directory.by_name("a", "1");
  const auto old = registry.snapshot()->find("a", "1");
  old->pipeline().hold();
  struct Waiting {
    tests::Bytes in = tests::pattern(100, 1), out = tests::Bytes(10);
    Frame frame;
    models::Passage passage;
    bool done = false;
    Waiting() {
      frame.inputs = {in};
      frame.outputs = {out};
      frame.on_complete = [](Frame&, void* context) { static_cast<Waiting*>(context)->done = true; };
      frame.context = this;
    }
  } any, one;
  newest->begun();
  ASSERT_TRUE(newest->submit(any.frame, any.passage).ok());
  pinned->begun();
  ASSERT_TRUE(pinned->submit(one.frame, one.passage).ok());
  EXPECT_FALSE(any.done || one.done);
  const auto next = model("a", "2");
  old->pipeline().hand_over(std::make_shared<models::SwapGate>(*old, next));
  ASSERT_TRUE(registry.publish(next).ok());
  ASSERT_TRUE(any.done && one.done);
  EXPECT_TRUE(any.frame.status.ok());
  EXPECT_EQ(any.passage.model, next);
  newest->succeeded(any.passage, any.frame.times, std::chrono::nanoseconds(1));
  EXPECT_EQ(next->statistics().successes, 1U) << "counted where it was computed";
  EXPECT_NE(
      metrics->serialise().find("millrace_requests_total{model=\"a\",outcome=\"success\",reason=\"none\","
                                "transport=\"udp\",version=\"2\"} 1"),
      std::string::npos);
  ASSERT_FALSE(one.frame.status.ok());
  EXPECT_EQ(one.frame.status.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(one.passage.model, old);
  EXPECT_EQ(look(newest->handle), Outcome::kStale);
  EXPECT_EQ(look(pinned->handle), Outcome::kUnknown);
}

TEST_F(UdpRegistryDirectory, RefreshReleasesReplacedModelsUnlessARequestUsesThem) {
  auto first = model("a", "1");
  const std::weak_ptr<models::Model> watched = first;
  ASSERT_TRUE(registry.publish(std::move(first)).ok());
  auto held = directory.by_name("a", "");
  ASSERT_TRUE(registry.publish(model("a", "1")).ok());
  directory.refresh();
  EXPECT_FALSE(watched.expired());
  held.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(UdpServedModel, ErrorNamesATensorWithoutAFixedSize) {
  const auto served = [](const std::vector<runtime::plan::TensorSignature>& inputs,
                         const std::vector<runtime::plan::TensorSignature>& outputs) -> Status {
    FakePipeline pipeline(FakePipeline::Mode::kInline, {}, {});
    pipeline.plan.model.inputs = inputs;
    pipeline.plan.model.outputs = outputs;
    const auto made = ServedModel::make(1, pipeline);
    return made.ok() ? Status() : made.error();
  };
  const runtime::plan::TensorSignature x{"x", "FP32", {1, 4}}, y{"y", "FP32", {1, 2}};
  EXPECT_TRUE(served({x}, {y}).ok());
  const auto refused = [&](const runtime::plan::TensorSignature& bad) {
    const Status s = served({x}, {y, bad});
    return !s.ok() && s.error().message().find("'z'") != std::string::npos;
  };
  EXPECT_TRUE(refused({"z", "BYTES", {1}}));
  EXPECT_TRUE(refused({"z", "FP32", {1, -1}}));
  EXPECT_TRUE(refused({"z", "FP32", {1, 0}}));
  EXPECT_TRUE(refused({"z", "FP32", {1, 1 << 30}}));
  EXPECT_TRUE(refused({"z", "UINT8", {std::int64_t{1} << 62, 4}}));
  EXPECT_FALSE(served({}, {y}).ok());
}

TEST(UdpMetrics, MetricsPageHasEveryUdpCounter) {
  Counters counters;
  counters.count(Event::kRequests, 3);
  counters.count(Drop::kTag, 5);
  counters.count(wire::Refusal::kBadMagic);
  counters.count(wire::ErrCode::kStale);
  counters.count(wire::BusyReason::kQueue);
  const auto metrics = metrics::Metrics::create("test");
  metrics->set_sampler([&](metrics::Samples& samples) { sample(counters, samples); });
  const std::string page = metrics->serialise();
  for (const char* line :
       {"millrace_udp_requests_total 3", "millrace_udp_dropped_datagrams_total{reason=\"tag\"} 5",
        "millrace_udp_dropped_datagrams_total{reason=\"magic\"} 1",
        "millrace_udp_dropped_datagrams_total{reason=\"kernel\"} 0",
        "millrace_udp_errors_total{reason=\"stale\"} 1", "millrace_udp_busy_total{reason=\"queue\"} 1"})
    EXPECT_NE(page.find(line), std::string::npos) << line;
}

}  // namespace
}  // namespace millrace::server::udp::test_udp_models
