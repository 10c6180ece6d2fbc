// Once the server is warm, a request costs no allocations but those of Beast's parser for the same bytes.
// tests/integration/test_request_allocations.cpp checks the same over cards.
#include <gtest/gtest.h>

#include "request_allocations.hpp"

namespace millrace::server::http {
namespace {

constexpr std::uint32_t kBytes = 3136;

/// Completes every frame at once.
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

TEST(HttpAllocations, OfARawRequestAreOnlyTheParsers) {
  test::expect_none_beyond_the_parsers(std::make_shared<NullPipeline>(),
                                       test::request_with("null", "", kBytes));
}
TEST(HttpAllocations, OfABinaryRequestAreOnlyTheParsers) {
  test::expect_none_beyond_the_parsers(std::make_shared<NullPipeline>(),
                                       test::request_with("null", kBinary, kBytes));
}

}  // namespace
}  // namespace millrace::server::http
