// A test fixture with an HTTP server on real sockets and a pipeline without cards.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fake_pipeline.hpp"
#include "raw_client.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

using namespace std::chrono_literals;
using test::Answer;
using test::FakePipeline;
using test::get;
using test::post;
using test::RawClient;

inline const std::string kInferTarget = "/v2/models/small/infer";
inline const std::string kJsonInput =
    R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1.5,-2,0.1,3e2]}]})";

class HttpServer : public testing::Test {
 protected:
  explicit HttpServer(std::vector<std::string> cors_origins = {})
      : api(registry, *metrics, ApiOptions{"9.8.7", 60'000ms, &guard, std::move(cors_origins)}) {}
  void start(ServerOptions options = {}) {
    pipeline = std::make_shared<FakePipeline>();
    ASSERT_TRUE(
        registry
            .publish(std::make_shared<models::Model>("small", "1", pipeline, metrics->model("small", "1"), 4))
            .ok());
    metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
    auto opened = Server::open(options, api, registry, *metrics);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    server = std::move(opened).value();
  }
  RawClient client() { return RawClient(server->address()); }

  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("9.8.7");
  models::Registry registry;
  auth::Guard guard;
  Api api;
  std::shared_ptr<FakePipeline> pipeline;
  std::unique_ptr<Server> server;
};

}  // namespace millrace::server::http
