// Every allocation of a swap and an unload fails once: the repository goes on, what the index calls READY
// serves and answers, and the next load works. Not those while a deployment is read: protobuf's destructors
// end the program there.

#include <gtest/gtest.h>

#include <array>
#include <future>
#include <memory>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "server/models/repository.hpp"
#include "server/models/swap.hpp"
#include "tests/support/failing_allocation.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/host_deployment.hpp"

namespace millrace::server::models {
namespace {

using namespace std::chrono_literals;
using runtime::pipeline::Frame;
using runtime::pipeline::Pipeline;

/// Has cards for so many pipelines. Its own memory never ends where a pipeline stops: that is not ours here.
struct Cards {
  std::size_t places = 1;
  std::atomic<std::size_t> open{0};
  std::atomic<long> next{-1};  // the allocation to fail, counted from the next check() on

  class Fake final : public Pipeline {
   public:
    Fake(Cards& cards, const runtime::plan::Deployment& deployment)
        : cards_(cards), inner_(std::make_unique<test::FakePipeline>(deployment)) {
      ++cards_.open;
    }
    ~Fake() override {
      stop(0ms);
      const tests::Exempt exempt;
      inner_.reset();
    }
    const runtime::plan::Deployment& deployment() const override { return inner_->deployment(); }
    Status submit(Frame& frame) override { return inner_->submit(frame); }
    void cancel(Frame& frame) override { inner_->cancel(frame); }
    bool ready() const override { return inner_->ready(); }
    runtime::pipeline::PipelineStatus status() override { return inner_->status(); }
    Result<std::unique_ptr<Pipeline>> open_again() const override {
      MILLRACE_ASSIGN(auto again, cards_.make(deployment()));
      return std::unique_ptr<Pipeline>(std::move(again));
    }
    void stop(std::chrono::milliseconds bound) override {
      const tests::Exempt exempt;
      inner_->stop(bound);
      if (!std::exchange(stopped_, true)) --cards_.open;
    }

   private:
    Cards& cards_;
    std::unique_ptr<test::FakePipeline> inner_;
    bool stopped_ = false;
  };

  Result<std::unique_ptr<Fake>> make(const runtime::plan::Deployment& deployment) {
    if (open >= places) return Error(ErrorCode::kDoesNotFit, "no card is left");
    return std::make_unique<Fake>(*this, deployment);
  }
  PipelineSource source() {
    PipelineSource source;
    source.open = [this](const PipelineSource::Deployment& deployment,
                         std::uint32_t) -> Result<std::shared_ptr<Pipeline>> {
      MILLRACE_ASSIGN(std::shared_ptr<Pipeline> made, make(deployment->plan));
      return made;
    };
    source.check = [this](const PipelineSource::Deployment&, const std::vector<std::string>& also_free,
                          std::uint32_t) -> Status {
      if (const long n = next.exchange(-1); n >= 0) tests::fail_allocation(n);
      if (open < places + also_free.size()) return {};
      return Error(ErrorCode::kDoesNotFit, "no card is left");
    };
    return source;
  }
};

class LoadOutOfMemory : public testing::Test {
 protected:
  void begin(std::size_t places, std::uint32_t replicas = 1) {
    cards_.places = places;
    for (const int version : {1, 2})
      tests::write_host_deployment(root_.path() / "m" / std::to_string(version), version);
    RepositoryOptions options;
    options.root = root_.path();
    options.mode = RepositoryMode::kExplicit;
    SwapOptions swap;
    swap.drain = 5s;
    swap.replicas = replicas;
    swapper_.emplace(registry_, *metrics_, cards_.source(), swap);
    repository_.emplace(registry_, *metrics_, *swapper_, options);
    ASSERT_TRUE(repository_->start().ok());
    // What is kept for good, metrics above all, is there before anything is counted.
    for (const std::string version : {"1", "2", "1"}) ASSERT_TRUE(load(version).ok());
  }
  Status load(const std::string& version) {
    return wait_for([&](auto done) { return repository_->load({"m", version, std::nullopt}, done); });
  }
  Status unload() {
    return wait_for([&](auto done) { return repository_->unload("m", "", done); });
  }
  template <class Ask>
  Status wait_for(const Ask& ask) {
    auto ended = std::make_shared<std::promise<Status>>();
    if (Status asked = ask([ended](const Status& status) { ended->set_value(status); }); !asked.ok())
      return asked;
    return ended->get_future().get();
  }
  std::string serving() const {
    const auto model = registry_.snapshot()->find("m", "");
    return model == nullptr ? "" : model->version();
  }
  bool answers() {
    const auto model = registry_.snapshot()->find("m", "");
    std::array<std::byte, 16> in{}, out{};
    Frame frame;
    frame.inputs.emplace_back(in);
    frame.outputs.emplace_back(out);
    frame.deadline = runtime::pipeline::Clock::now() + 10s;
    return model != nullptr && model->pipeline().infer(frame).ok();
  }
  /// `act`, with the nth allocation failing, for every n until none fails any more; `before` in front of
  /// each.
  void fail_each(const std::function<void()>& before, const std::function<void(long)>& arm,
                 const std::function<Status()>& act) {
    bool reached = true;
    int felt = 0;
    for (long n = 0; reached; ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n));
      ASSERT_LT(n, 20'000);
      ASSERT_NO_FATAL_FAILURE(before());
      arm(n);
      const Status acted = act();
      reached = tests::stop_failing();
      if (!acted.ok()) ++felt;
      // What could not be brought back at once is, half a second later.
      ASSERT_TRUE(serving().empty() || answers()) << (acted.ok() ? "" : acted.error().message());
      std::string ready;
      for (const auto& entry : repository_->index())
        if (entry.state == ModelState::kReady) ready += entry.version;
      ASSERT_EQ(ready, serving()) << (acted.ok() ? "" : acted.error().message());
      for (const auto& entry : repository_->index())
        ASSERT_NE(entry.state, ModelState::kLoading) << entry.version;
    }
    EXPECT_GT(felt, 0) << "no allocation failed";
  }

  const tests::Exempt exempt_;  // this thread
  TemporaryDirectory root_{"millrace-memory"};
  Cards cards_;
  std::unique_ptr<metrics::Metrics> metrics_ = metrics::Metrics::create("1");
  Registry registry_;
  std::optional<Swapper> swapper_;
  std::optional<Repository> repository_;
};

TEST_F(LoadOutOfMemory, WhileAVersionGivesWayOnItsCards) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  fail_each([&] { ASSERT_TRUE(load("1").ok()); }, [&](long n) { cards_.next = n; },
            [&] { return load("2"); });
}

TEST_F(LoadOutOfMemory, WhileAVersionComesUpBesideAnother) {
  ASSERT_NO_FATAL_FAILURE(begin(2));
  fail_each([&] { ASSERT_TRUE(load("1").ok()); }, [&](long n) { cards_.next = n; },
            [&] { return load("2"); });
}

TEST_F(LoadOutOfMemory, WhileAVersionRollsIn) {
  ASSERT_NO_FATAL_FAILURE(begin(2, 2));
  const auto all_there = [&] {
    return serving().empty() || Swapper::strength(registry_.snapshot()->find("m", "")).there == 2;
  };
  fail_each(
      [&] {
        ASSERT_TRUE(tests::wait_until(all_there));
        ASSERT_TRUE(load("1").ok());
      },
      [&](long n) { cards_.next = n; }, [&] { return load("2"); });
}

TEST_F(LoadOutOfMemory, WhileAModelIsUnloaded) {
  ASSERT_NO_FATAL_FAILURE(begin(1));
  fail_each([&] { ASSERT_TRUE(load("1").ok()); }, &tests::fail_allocation, [&] { return unload(); });
}

}  // namespace
}  // namespace millrace::server::models
