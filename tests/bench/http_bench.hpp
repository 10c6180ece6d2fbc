// Code that bench_http and bench_http_card share: a server with any pipeline, a measurement by a client, and medians.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/log.hpp"
#include "server/http/server.hpp"
#include "tools/load/run.hpp"

namespace millrace::bench {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

inline void pin(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<unsigned>(cpu), &cpus);
  if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0)
    fail("cannot pin to CPU " + std::to_string(cpu));
}

namespace pipeline = runtime::pipeline;

/// A pipeline that completes every frame immediately and leaves the outputs unchanged.
class NullPipeline final : public pipeline::Pipeline {
 public:
  explicit NullPipeline(std::uint32_t bytes) {
    plan_.model.name = "null";
    plan_.model.inputs.push_back({"in", "UINT8", {1, bytes}});
    plan_.model.outputs.push_back({"out", "UINT8", {1, bytes}});
  }
  const runtime::plan::Deployment& deployment() const override { return plan_; }
  Status submit(pipeline::Frame& frame) override {
    frame.on_complete(frame, frame.context);
    return {};
  }
  void cancel(pipeline::Frame&) override {}
  bool ready() const override { return true; }
  pipeline::PipelineStatus status() override { return {}; }
  void stop(std::chrono::milliseconds) override {}

 private:
  runtime::plan::Deployment plan_;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual load::Address address() const = 0;
};

/// An HTTP server with one model. Its threads run on the processor to which the constructing thread is pinned.
class Millrace final : public Target {
 public:
  explicit Millrace(std::shared_ptr<pipeline::Pipeline> pipeline) : api_(registry_, *metrics_, {"bench"}) {
    const std::string name = pipeline->deployment().model.name;
    auto model =
        std::make_shared<server::models::Model>(name, "1", std::move(pipeline), metrics_->model(name, "1"));
    if (!registry_.publish(std::move(model)).ok()) fail("the model cannot be published");
    auto opened = server::http::Server::open({}, api_, registry_, *metrics_);
    if (!opened) fail(opened.error().message());
    server_ = std::move(opened).value();
  }
  load::Address address() const override {
    const std::string text = server_->address();
    return {{clients::Url::Scheme::kHttp, text.substr(0, text.rfind(':')), text.substr(text.rfind(':') + 1)}};
  }

 private:
  const std::unique_ptr<server::metrics::Metrics> metrics_ = server::metrics::Metrics::create("bench");
  server::models::Registry registry_;
  server::http::Api api_;
  std::unique_ptr<server::http::Server> server_;
};

struct Sample {
  double p50 = 0, p99 = 0, per_second = 0;
};

inline Sample measure(const Target& target, const std::string& request, std::uint32_t connections,
                      double seconds) {
  load::Settings settings;
  settings.connections = connections;
  settings.duration = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  settings.warmup = settings.duration / 10;
  const auto tally = load::run_http(target.address(), std::span(&request, 1), settings);
  if (!tally) fail(tally.error().message());
  for (const auto& [why, count] : tally->errors) fail(std::to_string(count) + " requests failed: " + why);
  const auto us = [&](double percent) {
    return std::chrono::duration<double, std::micro>(tally->latency.percentile(percent)).count();
  };
  return {
      us(50), us(99),
      static_cast<double>(tally->latency.count()) / std::chrono::duration<double>(tally->measured).count()};
}

inline double median_of(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

using Samples = std::vector<Sample>;

inline double median(const Samples& samples, double Sample::*value) {
  std::vector<double> values;
  for (const Sample& s : samples) values.push_back(s.*value);
  return median_of(values);
}

/// Returns the median over rounds of the ratio `of` / `to`. A disturbance affects both values of its round, so it
/// hardly changes the ratio.
inline double ratio(const Samples& of, const Samples& to, double Sample::*value) {
  std::vector<double> values;
  for (std::size_t i = 0; i < of.size(); ++i) values.push_back(of[i].*value / (to[i].*value));
  return median_of(values);
}

/// Returns an infer request for the model, with a binary tensor after the JSON header.
inline std::string request_for(const load::Address& address, const runtime::plan::ModelInfo& of) {
  const auto& input = of.inputs.front();
  client::ModelInfo model{of.name, "1", {{input.name, input.datatype, input.shape}}, {}};
  const std::vector<std::vector<std::byte>> inputs{std::vector<std::byte>(input.bytes(), std::byte{7})};
  return load::infer_request(address, model, inputs, false);
}

}  // namespace millrace::bench
