// A test fixture for swaps of model versions, with fake pipelines that fail when the test asks for it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_pipeline.hpp"
#include "server/models/swap.hpp"

namespace millrace::server::models {

using runtime::pipeline::Frame;
using test::FakePipeline;
using Loaded = runtime::plan::LoadedDeployment;
using namespace std::chrono_literals;

// The deadline of a frame. Only a frame that a bug holds back ever reaches this deadline.
inline constexpr auto kPatience = 10s;

/// A fake pool of cards with room for `capacity` pipelines. A test can make the opening of a pipeline fail.
struct FakePool {
  std::size_t capacity = 1;
  std::size_t open = 0, opened = 0;
  int alive = 0;                    // the number of existing pipelines, including stopped ones
  std::map<std::string, int> fail;  // by the deployment's directory: how many of the next openings fail
  std::function<void(Frame&)> compute = test::echo;
  std::function<void(const std::string&)> before_open;  // called with the mutex held
  std::vector<std::string> log;
  std::map<std::string, std::thread::id> ended;  // by pipeline: the thread that destroyed it
  std::mutex mutex;  // guards the pool, because replicas stop on several threads at once

  /// A pipeline that occupies its cards until it is stopped.
  class FakeReplica final : public runtime::pipeline::Pipeline {
   public:
    FakeReplica(FakePool& pool, std::string name) : pool_(pool), name_(std::move(name)) {
      ++pool_.open;
      ++pool_.alive;
      inner_.compute = pool.compute;
      inner_.set_digest(name_);
    }
    ~FakeReplica() override {
      stop(0ms);
      const std::lock_guard lock(pool_.mutex);
      pool_.ended[name_] = std::this_thread::get_id();
      --pool_.alive;
    }
    const runtime::plan::Deployment& deployment() const override { return inner_.deployment(); }
    Status submit(Frame& frame) override { return inner_.submit(frame); }
    void cancel(Frame& frame) override { inner_.cancel(frame); }
    bool ready() const override { return inner_.ready(); }
    runtime::pipeline::PipelineStatus status() override {
      auto status = inner_.status();
      status.cards.front().card = name_;
      return status;
    }
    Result<std::unique_ptr<Pipeline>> open_again() const override {
      MILLRACE_ASSIGN(auto again, pool_.make(name_));
      return std::unique_ptr<Pipeline>(std::move(again));
    }
    void stop(std::chrono::milliseconds bound) override {
      if (std::exchange(stopped_, true)) return;
      inner_.stop(bound);
      const std::lock_guard lock(pool_.mutex);
      --pool_.open;
      pool_.log.push_back("stop " + name_);
    }

   private:
    FakePool& pool_;
    const std::string name_;
    FakePipeline inner_;
    bool stopped_ = false;
  };

  Result<std::unique_ptr<FakeReplica>> make(const std::string& name) {
    const std::lock_guard lock(mutex);
    if (before_open) before_open(name);
    if (open >= capacity) return Error(ErrorCode::kDoesNotFit, "no card is left for " + name);
    if (fail[name] > 0) {
      --fail[name];
      return Error(ErrorCode::kEnvironment, name + " does not come up");
    }
    log.push_back("open " + name);
    ++opened;
    return std::make_unique<FakeReplica>(*this, name);
  }
  PipelineSource source() {
    PipelineSource source;
    source.open = [this](const PipelineSource::Deployment& deployment,
                         std::uint32_t) -> Result<std::shared_ptr<runtime::pipeline::Pipeline>> {
      MILLRACE_ASSIGN(std::shared_ptr<FakeReplica> made, make(deployment->directory.string()));
      return std::shared_ptr<runtime::pipeline::Pipeline>(std::move(made));
    };
    source.check = [this](const PipelineSource::Deployment&, const std::vector<std::string>& also_free,
                          std::uint32_t) -> Status {
      const std::lock_guard lock(mutex);
      if (open < capacity + also_free.size()) return {};
      return Error(ErrorCode::kDoesNotFit, "no card is left");
    };
    return source;
  }
};

struct SwapTest : testing::Test {
  NextVersion version(const std::string& name) {
    auto loaded = std::make_shared<Loaded>();
    loaded->directory = name;
    return {"m", name, std::move(loaded), {}};
  }
  Swapper swapper(std::uint32_t replicas = 1) {
    SwapOptions options;
    options.replicas = replicas;
    options.drain = 5s;
    return Swapper(registry, *metrics, pool.source(), options);
  }
  std::shared_ptr<Model> serving() { return registry.snapshot()->find("m", ""); }
  std::string serving_version() { return serving() == nullptr ? "" : serving()->version(); }
  /// Whether the model version in service answers a frame.
  bool answers() {
    std::array<std::byte, 16> in{}, out{};
    Frame frame;
    frame.inputs.emplace_back(in);
    frame.outputs.emplace_back(out);
    frame.deadline = runtime::pipeline::Clock::now() + kPatience;
    return serving() != nullptr && serving()->pipeline().infer(frame).ok();
  }

  FakePool pool;
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("1");
  Registry registry;
};

}  // namespace millrace::server::models
