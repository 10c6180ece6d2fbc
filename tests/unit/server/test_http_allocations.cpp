// What a request costs in allocations once the server is warm, beyond what Beast's parser takes for the same
// bytes: nothing.
#include <gtest/gtest.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <optional>

#include "raw_client.hpp"
#include "server/http/server.hpp"
#include "tests/support/allocations.hpp"

namespace millrace::server::http {
namespace {

namespace bhttp = boost::beast::http;

constexpr std::uint32_t kBytes = 3136;
constexpr int kRequests = 200;

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

std::string request_with(const std::string& header) {
  return "POST /v2/models/null/infer HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: " +
         std::to_string(header.size()) + "\r\nContent-Length: " + std::to_string(header.size() + kBytes) +
         "\r\n\r\n" + header + std::string(kBytes, 'x');
}

const std::string kBinary =
    R"({"inputs":[{"name":"in","datatype":"UINT8","shape":[1,3136],"parameters":{"binary_data_size":3136}}],)"
    R"("parameters":{"binary_data_output":true}})";

/// What the parser takes for one request.
double parsers_own(const std::string& request) {
  const std::uint64_t before = tests::allocations_of_this_thread();
  for (int i = 0; i < kRequests; ++i) {
    std::optional<bhttp::request_parser<bhttp::vector_body<unsigned char>>> parser;
    parser.emplace();
    parser->eager(true);
    boost::system::error_code error;
    std::size_t at = 0;
    while (at < request.size() && !error)
      at += parser->put(boost::asio::buffer(request.data() + at, request.size() - at), error);
    EXPECT_TRUE(parser->is_done()) << error.message();
  }
  const std::uint64_t after = tests::allocations_of_this_thread();
  return static_cast<double>(after - before) / kRequests;
}

double servers(const std::string& request) {
  const tests::Uncounted client_side;
  const auto metrics = metrics::Metrics::create("test");
  models::Registry registry;
  Api api(registry, *metrics, {"test"});
  const Status published = registry.publish(std::make_shared<models::Model>(
      "null", "1", std::make_shared<NullPipeline>(), metrics->model("null", "1")));
  EXPECT_TRUE(published.ok());
  ServerOptions options;
  options.idle_timeout = options.header_timeout = options.body_timeout = options.write_timeout =
      options.linger = std::chrono::hours(1);
  const auto server = Server::open(options, api, registry, *metrics);
  EXPECT_TRUE(server.ok());
  test::RawClient client((*server)->address());
  const auto exchange = [&](int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(client.send(request));
      EXPECT_EQ(client.receive().status, 200);
    }
  };
  exchange(20);
  const std::uint64_t before = tests::allocations();
  exchange(kRequests);
  return static_cast<double>(tests::allocations() - before) / kRequests;
}

void expect_none_beyond_the_parsers(const std::string& request) {
  const double parser = parsers_own(request);
  const double all = servers(request);
  testing::Test::RecordProperty("parser", std::to_string(parser));
  testing::Test::RecordProperty("server", std::to_string(all));
  EXPECT_GE(parser, 1) << "nothing was counted";
  EXPECT_LE(all, parser) << "the server allocates " << all << " times a request, the parser " << parser;
}

TEST(HttpAllocations, OfARawRequestAreTheParsersOwn) {
  expect_none_beyond_the_parsers(request_with(""));
}
TEST(HttpAllocations, OfABinaryRequestAreTheParsersOwn) {
  expect_none_beyond_the_parsers(request_with(kBinary));
}

}  // namespace
}  // namespace millrace::server::http
