// Every allocation of the server's threads fails once: the request is answered or its connection closed, and
// the server goes on.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "fake_pipeline.hpp"
#include "raw_client.hpp"
#include "server/http/server.hpp"
#include "tests/support/failing_allocation.hpp"

namespace millrace::server::http {
namespace {

using test::Answer;
using test::get;
using test::post;
using test::RawClient;

class OutOfMemory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        registry
            .publish(std::make_shared<models::Model>("small", "1", pipeline, metrics->model("small", "1")))
            .ok());
    metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
    auto opened = Server::open({}, api, registry, *metrics);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    server = std::move(opened).value();
  }

  /// Sends `request` with the nth allocation from `arm` on failing, for every n, until none fails any more.
  void fail_each(const std::string& request, const std::function<void(long)>& arm) {
    bool reached = true;
    int felt = 0;
    for (long n = 0; reached; ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n));
      ASSERT_LT(n, 2000);
      {
        RawClient to(server->address());
        ASSERT_EQ(to.exchange(get("/v2/health/live")).status, 200) << "the connection is open";
        arm(n);
        const Answer answer = to.exchange(request);
        EXPECT_TRUE(answer.status == 200 || answer.status == 503 || answer.status == 500 ||
                    answer.status == 0)
            << answer.status;
        if (answer.status != 200) ++felt;
        EXPECT_TRUE(answer.status != 0 || to.closed_by_server()) << "neither answered nor closed";
      }
      reached = tests::stop_failing();
      ASSERT_EQ(RawClient(server->address()).exchange(request).status, 200) << "the server goes on";
      while (!server->idle()) std::this_thread::yield();
    }
    EXPECT_GT(felt, 0) << "no allocation failed";
  }

  const tests::Exempt exempt;  // this thread
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("9.8.7");
  models::Registry registry;
  Api api{registry, *metrics, ApiOptions{"9.8.7", std::chrono::milliseconds(60'000)}};
  std::shared_ptr<test::FakePipeline> pipeline = std::make_shared<test::FakePipeline>();
  std::unique_ptr<Server> server;
};

const std::string kJson =
    R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1.5,-2,0.1,3e2]}]})";

TEST_F(OutOfMemory, while_an_inference_is_read_and_answered) {
  fail_each(post("/v2/models/small/infer", kJson), &tests::fail_allocation);
}

TEST_F(OutOfMemory, after_the_pipeline_completed_the_frame) {
  std::atomic<long> next{-1};
  pipeline->compute = [&](runtime::pipeline::Frame& frame) {
    test::echo(frame);
    tests::fail_allocation(next.exchange(-1));
  };
  fail_each(post("/v2/models/small/infer", kJson), [&](long n) { next = n; });
}

TEST_F(OutOfMemory, while_metrics_are_read) {
  fail_each(get("/metrics"), &tests::fail_allocation);
}

}  // namespace
}  // namespace millrace::server::http
