// Tests the client libraries over HTTP with the real HTTP server.
#include <gtest/gtest.h>

#include <chrono>

#include "millrace/client.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "server/http/server.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"
#include "tests/unit/server/udp/fakes.hpp"

namespace millrace::client::test_client_http {
namespace {

using namespace std::chrono_literals;
using tests::Bytes;
using tests::FakePipeline;
using tests::pattern;

class ClientOverHttp : public ::testing::Test {
 protected:
  void serve(FakePipeline::Mode mode, std::vector<std::uint32_t> in, std::vector<std::uint32_t> out) {
    pipeline = std::make_shared<FakePipeline>(mode, std::move(in), std::move(out));
    ASSERT_TRUE(registry
                    .publish(std::make_shared<server::models::Model>("fake", "1", pipeline,
                                                                     metrics->model("fake", "1")))
                    .ok());
    auto opened = server::http::Server::open({}, api, registry, *metrics);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    server = std::move(opened).value();
    url = "http://" + server->address();
    const Status s = connect(url, {}, client);
    ASSERT_TRUE(s.ok()) << s.message;
  }
  ~ClientOverHttp() override {
    while (pipeline && pipeline->complete_one()) {
    }
  }

  std::unique_ptr<server::metrics::Metrics> metrics = server::metrics::Metrics::create("test");
  server::models::Registry registry;
  server::http::Api api{registry, *metrics, {"test", 5s}};
  std::shared_ptr<FakePipeline> pipeline;
  std::unique_ptr<server::http::Server> server;
  std::string url;
  std::unique_ptr<Client> client;
  std::vector<Bytes> outputs;
};

TEST_F(ClientOverHttp, SeveralInputAndOutputTensorsAreCorrect) {
  serve(FakePipeline::Mode::kThread, {1000, 1, 3000}, {10, 2000});
  EXPECT_TRUE(client->ready().ok());
  ModelInfo info;
  ASSERT_TRUE(client->model("fake", "", info).ok());
  EXPECT_EQ(info.version, "1");
  ASSERT_EQ(info.inputs.size(), 3U);
  EXPECT_EQ(info.inputs[2].bytes(), 3000U);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const Bytes a = pattern(1000, i), b = pattern(1, i), c = pattern(3000, i);
    Bytes all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    Bytes first(10), second(2000);
    tests::compute(all, first);
    tests::compute(all, second);
    const Status s = client->infer("fake", i % 2 == 0 ? "" : "1", {{a}, {b}, {c}}, 5s, outputs);
    ASSERT_TRUE(s.ok()) << s.message;
    EXPECT_EQ(outputs, (std::vector<Bytes>{first, second}));
  }
}

TEST_F(ClientOverHttp, ErrorCodesDistinguishWrongModelVersionAndInput) {
  serve(FakePipeline::Mode::kManual, {100}, {100});
  const Bytes right = pattern(100, 1), wrong = pattern(99, 1);
  EXPECT_EQ(client->infer("other", "", {{right}}, 1s, outputs).code, Code::kNotFound);
  EXPECT_EQ(client->infer("", "", {{right}}, 1s, outputs).code, Code::kInvalid);
  EXPECT_EQ(client->infer("fake", "2", {{right}}, 1s, outputs).code, Code::kNotFound);
  EXPECT_EQ(client->infer("fake", "", {{wrong}}, 1s, outputs).code, Code::kInvalid);
  EXPECT_EQ(client->infer("fake", "", {}, 1s, outputs).code, Code::kInvalid);
  pipeline->capacity = 0;
  EXPECT_EQ(client->infer("fake", "", {{right}}, 1s, outputs).code, Code::kBusy);
  pipeline->refusal = Error(ErrorCode::kUnavailable, "card lost");
  EXPECT_EQ(client->infer("fake", "", {{right}}, 1s, outputs).code, Code::kUnavailable);
  ASSERT_TRUE(registry
                  .publish(std::make_shared<server::models::Model>("deadline-x", "1", pipeline,
                                                                   metrics->model("deadline-x", "1")))
                  .ok());
  EXPECT_EQ(client->infer("deadline-x", "", {{right}}, 1s, outputs).code, Code::kUnavailable)
      << "a name says nothing of why";
  pipeline->refusal.reset();
  pipeline->capacity = 9;
  EXPECT_EQ(client->infer("fake", "", {{right}}, 50ms, outputs).code, Code::kDeadline)
      << "the pipeline never answers";
  server->begin_drain();
  EXPECT_EQ(client->ready().code, Code::kUnavailable);
  while (pipeline->complete_one()) {
  }
  server.reset();
  EXPECT_EQ(client->infer("fake", "", {{right}}, 1s, outputs).code, Code::kUnavailable);
  std::unique_ptr<Client> none;
  EXPECT_EQ(connect(url, {}, none).code, Code::kUnavailable);
}

TEST(PythonClient, ATimeoutBoundsTheWholeCallWithManyOpenDescriptors) {
  const std::string tests = std::string(tests::source_dir()) + "/tests/unit/server/udp/drive_timeouts.py";
  const tests::Outcome run = tests::run_program({"python3", tests}, {}, 120s);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST_F(ClientOverHttp, PythonClientUsesArraysIfNumpyIsInstalled) {
  serve(FakePipeline::Mode::kThread, {300, 20}, {10, 40});
  tests::expect_arrays_over(url);
}

TEST_F(ClientOverHttp, PythonClientReceivesTheSameOutputs) {
  serve(FakePipeline::Mode::kThread, {5000}, {900});
  const std::string tests = std::string(tests::source_dir()) + "/tests/unit/server/udp/drive_client.py";
  const tests::Outcome run =
      tests::run_program({"python3", tests, url, "1", "40", "5", "5000", "900", "0", ""});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("\"right\": 40, \"wrong\": 0, \"failed\": {}"), std::string::npos) << run.out;

  const TemporaryDirectory scratch("http-python");
  const Bytes input = pattern(5000, 3);
  ASSERT_TRUE(write_npy(scratch.path() / "x.npy", {"|u1", {5000}, input}).ok());
  const tests::Outcome one =
      tests::run_python_client({"--url", url, "--model", "fake", "--input", scratch.path() / "x.npy",
                                "--output", scratch.path() / "y.npy"});
  ASSERT_EQ(one.exit_code, 0) << one.err;
  Bytes expected(900);
  tests::compute(input, expected);
  auto read = read_npy(scratch.path() / "y.npy");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->data, expected);
  const tests::Outcome bad =
      tests::run_python_client({"--url", url, "--model", "other", "--input", scratch.path() / "x.npy"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("status 404"), std::string::npos) << bad.err;
}

}  // namespace
}  // namespace millrace::client::test_client_http
