// Tests that a warm server makes no allocations for a request except those of Beast's parser. If memory is short, the
// server answers the request that needs memory with 503 and continues. tests/integration/test_request_allocations.cpp
// tests allocations with cards.
#include <gtest/gtest.h>

#include "fake_pipeline.hpp"
#include "request_allocations.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::http::test_http_allocations {
namespace {

constexpr std::uint32_t kBytes = 3136;

/// A pipeline that completes every frame immediately.
class NullPipeline final : public runtime::pipeline::Pipeline {
 public:
  NullPipeline() {
    plan_.model.name = "null";
    plan_.model.inputs.push_back({"in", "UINT8", {1, kBytes}});
    plan_.model.outputs.push_back({"out", "UINT8", {1, kBytes}});
  }
  const runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(runtime::pipeline::Frame& frame) override {
    frame.on_complete(frame, frame.context);
    return {};
  }
  void cancel(runtime::pipeline::Frame&) override {}
  bool ready() const override { return true; }
  runtime::pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

 private:
  runtime::plan::Deployment plan_;
};

const std::string kBinary =
    R"({"inputs":[{"name":"in","datatype":"UINT8","shape":[1,3136],"parameters":{"binary_data_size":3136}}],)"
    R"("parameters":{"binary_data_output":true}})";

TEST(HttpAllocations, RawRequestAllocatesOnlyInTheHttpParser) {
  test::expect_none_beyond_the_parsers(std::make_shared<NullPipeline>(),
                                       test::request_with("null", "", kBytes));
}
TEST(HttpAllocations, BinaryRequestAllocatesOnlyInTheHttpParser) {
  test::expect_none_beyond_the_parsers(std::make_shared<NullPipeline>(),
                                       test::request_with("null", kBinary, kBytes));
}

class ServerWithoutMemory : public testing::Test {
 protected:
  ServerWithoutMemory() {
    EXPECT_TRUE(
        registry_
            .publish(std::make_shared<models::Model>("small", "1", pipeline_, metrics_->model("small", "1")))
            .ok());
    server_ = Server::open(ServerOptions(), api_, registry_, *metrics_).value();
  }
  server::test::RawClient client() const { return server::test::RawClient(server_->address()); }

  const std::string request_ = test::request_with("small", "", 16);
  const std::unique_ptr<metrics::Metrics> metrics_ = metrics::Metrics::create("test");
  const std::shared_ptr<server::test::FakePipeline> pipeline_ =
      std::make_shared<server::test::FakePipeline>();
  models::Registry registry_;
  Api api_{registry_, *metrics_, {"test"}};
  std::unique_ptr<Server> server_;
};

TEST_F(ServerWithoutMemory, Answers503IfARequestBufferCannotBeAllocated) {
  auto to = client();
  {
    const tests::FailAbove limit(60'000);  // a request that needs a second read needs a larger buffer
    to.send(request_.substr(0, request_.size() - 1));
    EXPECT_EQ(to.receive().body, R"({"error":"out of memory for this request"})");
    EXPECT_GT(limit.failures(), 0U);
  }
  EXPECT_TRUE(to.closed_by_server());
  EXPECT_EQ(client().exchange(request_).status, 200);
}

}  // namespace
}  // namespace millrace::server::http::test_http_allocations
