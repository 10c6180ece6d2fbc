// Swaps with every policy, and rollbacks, over fake pipelines that fail on command.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "server/models/directory.hpp"
#include "server/models/repository.hpp"
#include "server/models/swap.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::models {
namespace {

using runtime::pipeline::Frame;
using test::FakePipeline;
using Loaded = runtime::plan::LoadedDeployment;
using namespace std::chrono_literals;

// If a bug leaves frames held, they fail after this time.
constexpr auto kPatience = 10s;

/// A fake pool of cards with room for `places` pipelines. Opening one fails on command.
struct Farm {
  std::size_t places = 1;
  std::size_t open = 0, opened = 0;
  int there = 0;                    // those stopped too
  std::map<std::string, int> fail;  // deployment's directory -> further opens that fail
  std::function<void(Frame&)> compute = test::echo;
  std::function<void(const std::string&)> before_open;  // of the mutex's holder
  std::vector<std::string> log;
  std::map<std::string, std::thread::id> ended;  // which thread took the pipeline to pieces
  std::mutex mutex;                              // replicas stop at once, on threads of their own

  /// Occupies a place until it is stopped.
  class Fake final : public runtime::pipeline::Pipeline {
   public:
    Fake(Farm& farm, std::string name) : farm_(farm), name_(std::move(name)) {
      ++farm_.open;
      ++farm_.there;
      inner_.compute = farm.compute;
      inner_.set_digest(name_);
    }
    ~Fake() override {
      stop(0ms);
      const std::lock_guard lock(farm_.mutex);
      farm_.ended[name_] = std::this_thread::get_id();
      --farm_.there;
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
      MILLRACE_ASSIGN(auto again, farm_.make(name_));
      return std::unique_ptr<Pipeline>(std::move(again));
    }
    void stop(std::chrono::milliseconds bound) override {
      if (std::exchange(stopped_, true)) return;
      inner_.stop(bound);
      const std::lock_guard lock(farm_.mutex);
      --farm_.open;
      farm_.log.push_back("stop " + name_);
    }

   private:
    Farm& farm_;
    const std::string name_;
    FakePipeline inner_;
    bool stopped_ = false;
  };

  Result<std::unique_ptr<Fake>> make(const std::string& name) {
    const std::lock_guard lock(mutex);
    if (before_open) before_open(name);
    if (open >= places) return Error(ErrorCode::kDoesNotFit, "no card is left for " + name);
    if (fail[name] > 0) {
      --fail[name];
      return Error(ErrorCode::kEnvironment, name + " does not come up");
    }
    log.push_back("open " + name);
    ++opened;
    return std::make_unique<Fake>(*this, name);
  }
  PipelineSource source() {
    PipelineSource source;
    source.open = [this](const PipelineSource::Deployment& deployment,
                         std::uint32_t) -> Result<std::shared_ptr<runtime::pipeline::Pipeline>> {
      MILLRACE_ASSIGN(std::shared_ptr<Fake> made, make(deployment->directory.string()));
      return std::shared_ptr<runtime::pipeline::Pipeline>(std::move(made));
    };
    source.check = [this](const PipelineSource::Deployment&, const std::vector<std::string>& also_free,
                          std::uint32_t) -> Status {
      const std::lock_guard lock(mutex);
      if (open < places + also_free.size()) return {};
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
    return Swapper(registry, *metrics, farm.source(), options);
  }
  std::shared_ptr<Model> serving() { return registry.snapshot()->find("m", ""); }
  std::string serving_version() { return serving() == nullptr ? "" : serving()->version(); }
  /// Whether the model that serves answers a frame.
  bool answers() {
    std::array<std::byte, 16> in{}, out{};
    Frame frame;
    frame.inputs.emplace_back(in);
    frame.outputs.emplace_back(out);
    frame.deadline = runtime::pipeline::Clock::now() + kPatience;
    return serving() != nullptr && serving()->pipeline().infer(frame).ok();
  }

  Farm farm;
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("1");
  Registry registry;
};

TEST_F(SwapTest, AnUnloadedModelIsDestroyedAfterItsLastRequestAndOnAnotherThread) {
  Swapper swap = swapper();
  RepositoryOptions options;
  options.mode = RepositoryMode::kExplicit;
  Repository repository(registry, *metrics, swap, options);
  auto deployment = version("1").deployment;
  auto named = std::make_shared<Loaded>(*deployment);
  named->plan.model.name = "m";
  ASSERT_TRUE(repository.serve_deployment(named).ok());
  ASSERT_TRUE(repository.start().ok());
  auto request = serving();
  ASSERT_NE(request, nullptr);
  const auto unload = [&] {
    std::promise<Status> ended;
    EXPECT_TRUE(repository.unload("m", "", [&](const Status& status) { ended.set_value(status); }).ok());
    return ended.get_future().get();
  };
  EXPECT_TRUE(unload().ok());
  const auto ended = [&] {
    const std::lock_guard lock(farm.mutex);
    const auto found = farm.ended.find("1");
    return found == farm.ended.end() ? std::thread::id() : found->second;
  };
  // Every job releases the models that no request holds.
  EXPECT_EQ(unload().error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(ended(), std::thread::id()) << "a request still holds the model";
  request.reset();
  EXPECT_NE(ended(), std::this_thread::get_id());
  EXPECT_TRUE(tests::wait_until([&] { return ended() != std::thread::id(); })) << "without another job";
}

TEST(ParseVersion, TakesPositiveNumbersOfAtMostEighteenDigits) {
  EXPECT_EQ(parse_version("1"), 1U);
  EXPECT_EQ(parse_version("999999999999999999"), 999'999'999'999'999'999U);
  // 2^64 + 1 has 20 digits and would wrap around to 1.
  for (const char* none : {"", "0", "01", "+1", "-1", "1 ", "1a", "1.0", "1000000000000000000",
                           "18446744073709551617", "99999999999999999999"})
    EXPECT_EQ(parse_version(none), 0U) << "'" << none << "'";
}

TEST_F(SwapTest, ComputesWarmUpFramesBeforeAVersionServes) {
  std::vector<std::string> computed;  // who served at each frame
  bool zeros = true;
  farm.compute = [&](Frame& frame) {
    computed.push_back(serving_version());
    zeros = zeros && std::all_of(frame.inputs[0].begin(), frame.inputs[0].end(),
                                 [](std::byte b) { return b == std::byte{}; });
    test::echo(frame);
  };
  SwapOptions options;
  options.verify.warmup_frames = 3;
  options.drain = 5s;
  Swapper swap(registry, *metrics, farm.source(), options);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  EXPECT_EQ(computed, std::vector<std::string>(3, ""));
  computed.clear();
  farm.places = 2;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kOverlap).status.ok());
  EXPECT_EQ(computed, std::vector<std::string>(3, "1")) << "the old version serves until then";
  EXPECT_TRUE(zeros);
}

TEST_F(SwapTest, OverlapOpensTheNewVersionFirstAndAutoPrefersOverlap) {
  farm.places = 2;
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kAuto);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message();
  EXPECT_EQ(result.used, SwapPolicy::kOverlap);
  EXPECT_EQ(farm.log, (std::vector<std::string>{"open 1", "open 2", "stop 1"}));
  EXPECT_EQ(serving_version(), "2");
  EXPECT_TRUE(answers());
  EXPECT_EQ(registry.snapshot()->versions("m")->size(), 1U);
}

TEST_F(SwapTest, DrainStopsTheOldVersionFirstAndAutoFallsBackToDrain) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  EXPECT_EQ(swap.swap(serving(), version("2"), SwapPolicy::kOverlap).status.error().code(),
            ErrorCode::kDoesNotFit);
  EXPECT_EQ(swap.swap(serving(), version("2"), SwapPolicy::kRolling).status.error().code(),
            ErrorCode::kInvalidInput);
  EXPECT_EQ(farm.log, std::vector<std::string>{"open 1"}) << "nothing was touched";
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kAuto);
  ASSERT_TRUE(result.status.ok());
  EXPECT_EQ(result.used, SwapPolicy::kDrain);
  EXPECT_EQ(farm.log, (std::vector<std::string>{"open 1", "stop 1", "open 2"}));
  EXPECT_EQ(serving_version(), "2");
}

TEST_F(SwapTest, AVersionThatComesUpAtTheSecondTryServes) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  farm.fail["2"] = 1;
  EXPECT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).status.ok());
  EXPECT_EQ(serving_version(), "2");
}

TEST_F(SwapTest, TheOldVersionServesAgainIfTheNewOneDoesNotComeUp) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  const auto before = serving();
  farm.fail["2"] = 2;
  const auto result = swap.swap(before, version("2"), SwapPolicy::kDrain);
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(result.rolled_back);
  EXPECT_EQ(serving_version(), "1");
  EXPECT_NE(serving(), before) << "in another pipeline";
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, ALostVersionHoldsItsFramesUntilItComesUp) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  farm.fail["2"] = 2;
  farm.fail["1"] = 3;
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kDrain);
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(result.lost);
  EXPECT_EQ(serving()->state(), ModelState::kUnavailable);
  std::array<std::byte, 16> in{}, out{};
  Frame waiting;
  waiting.inputs.emplace_back(in);
  waiting.outputs.emplace_back(out);
  waiting.deadline = runtime::pipeline::Clock::now() + kPatience;
  std::atomic<int> done{0};
  waiting.context = &done;
  waiting.on_complete = [](Frame&, void* context) {
    static_cast<std::atomic<int>*>(context)->store(1);
    static_cast<std::atomic<int>*>(context)->notify_all();
  };
  ASSERT_TRUE(serving()->pipeline().submit(waiting).ok());
  std::optional<Error> missing;
  EXPECT_TRUE(swap.bring_back(serving(), missing).ok()) << "the fourth try, and the one after it";
  EXPECT_FALSE(missing);
  done.wait(0);
  EXPECT_TRUE(waiting.status.ok());
  EXPECT_EQ(serving()->state(), ModelState::kReady);
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, AnotherVersionReplacesALostOne) {
  Swapper swap = swapper();
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  farm.fail["2"] = 2;
  farm.fail["1"] = 2;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).lost);
  const auto result = swap.swap(serving(), version("3"), SwapPolicy::kAuto);
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(serving_version(), "3");
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, RollingReplacesReplicasOneByOneAndHalfOfThemAlwaysServe) {
  farm.places = 4;
  Swapper swap = swapper(4);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kAuto);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message();
  EXPECT_EQ(result.used, SwapPolicy::kRolling);
  EXPECT_EQ(farm.log, (std::vector<std::string>{"open 1", "open 1", "open 1", "open 1", "stop 1", "open 2",
                                                "stop 1", "open 2", "stop 1", "open 2", "stop 1", "open 2"}));
  EXPECT_EQ(serving()->pipeline().status().slots, 8U) << "of four replicas";
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, RollingBackOpensAsManyOldReplicasAsWereStopped) {
  farm.places = 3;
  Swapper swap = swapper(3);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  farm.fail["2"] = 1;
  const auto result = swap.swap(serving(), version("2"), SwapPolicy::kRolling);
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(result.rolled_back);
  EXPECT_EQ(serving_version(), "1");
  EXPECT_EQ(serving()->pipeline().status().slots, 6U);
  EXPECT_EQ(farm.open, 3U);
}

TEST_F(SwapTest, RepeatedRollbacksKeepAllReplicasAndNoStoppedPipeline) {
  farm.places = 2;
  Swapper swap = swapper(2);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  for (int turn = 0; turn < 300; ++turn) {
    farm.fail["2"] = 1;
    const auto result = swap.swap(serving(), version("2"), SwapPolicy::kRolling);
    ASSERT_TRUE(result.rolled_back);
    ASSERT_FALSE(result.missing);
    ASSERT_EQ(Swapper::replica_count(serving()).there, 2U) << "turn " << turn;
  }
  EXPECT_LE(farm.there, 4) << "two that serve, the very first, and the last that was stopped";
  EXPECT_TRUE(answers());
}

TEST_F(SwapTest, CountsAReplicaThatDoesNotComeUpAgainAsMissing) {
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  const auto count = [&](const std::string& series) {
    const std::string page = metrics->serialise();
    const std::string line = series + "{model=\"m\",version=\"" + serving_version() + "\"} ";
    const auto at = page.find(line);
    return at == std::string::npos ? "none" : page.substr(at + line.size(), 1);
  };
  const auto expect = [&](const std::string& wanted, const std::string& there) {
    EXPECT_EQ(count("millrace_replicas_wanted"), wanted);
    EXPECT_EQ(count("millrace_replicas"), there);
  };
  farm.places = 3;
  {
    Swapper alone = swapper(1);
    ASSERT_TRUE(alone.swap(nullptr, version("0"), SwapPolicy::kAuto).status.ok());
    expect("1", "1");
    alone.unload(serving());
  }
  Swapper swap = swapper(3);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  expect("3", "3");
  farm.fail["2"] = 1;
  farm.fail["1"] = 1;
  EXPECT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kRolling).rolled_back);
  expect("3", "2");
  // Now all replicas were stopped: one comes up, the second does not.
  farm.fail["2"] = 100;
  std::atomic<int> opened{0};
  farm.before_open = [&](const std::string& name) {
    if (name == "1" && ++opened == 2) farm.fail["1"] = 1;
  };
  EXPECT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).rolled_back);
  expect("3", "1");
  EXPECT_TRUE(answers());
  // The next try brings up one more replica, the try after it the last one. A further try does nothing.
  opened = 0;
  EXPECT_FALSE(swap.complete(serving()).ok());
  expect("3", "2");
  EXPECT_TRUE(swap.complete(serving()).ok());
  expect("3", "3");
  EXPECT_TRUE(swap.complete(serving()).ok());
  EXPECT_EQ(farm.open, 3U);
  EXPECT_TRUE(answers());
  farm.before_open = nullptr;
  farm.fail["2"] = 0;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kDrain).status.ok());
  expect("3", "3");
}

TEST_F(SwapTest, AReplicaWithWrongOutputsIsRefusedAtEveryRetry) {
  farm.places = 2;
  Swapper swap = swapper(2);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  NextVersion next = version("2");
  next.stored = {1, {std::vector<std::byte>(16, std::byte{1})}, {std::vector<std::byte>(16, std::byte{1})}};
  // Pipelines echo their input, except those that are opened after the first one of version 2.
  int opened = 0;
  farm.before_open = [&](const std::string& name) {
    if (name == "2" && ++opened == 2)
      farm.compute = [](Frame& frame) {
        test::echo(frame);
        frame.outputs[0][0] ^= std::byte{1};
      };
  };
  const auto result = swap.swap(serving(), next, SwapPolicy::kRolling);
  ASSERT_TRUE(result.status.ok()) << result.status.error().message();
  ASSERT_TRUE(result.missing);
  EXPECT_NE(result.missing->message().find("verification: frame 0"), std::string::npos)
      << result.missing->message();
  const Status again = swap.complete(serving());
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message().find("verification: frame 0"), std::string::npos)
      << again.error().message();
  EXPECT_EQ(Swapper::replica_count(serving()).there, 1U);
  EXPECT_EQ(farm.open, 1U);
  farm.compute = test::echo;
  EXPECT_TRUE(swap.complete(serving()).ok());
  EXPECT_EQ(Swapper::replica_count(serving()).there, 2U);
}

TEST_F(SwapTest, RollingIsRefusedWhileAReplicaIsMissing) {
  farm.places = 2;
  Swapper swap = swapper(2);
  ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
  farm.fail["2"] = 1;
  farm.fail["1"] = 1;
  ASSERT_TRUE(swap.swap(serving(), version("2"), SwapPolicy::kRolling).rolled_back);
  ASSERT_EQ(Swapper::replica_count(serving()).there, 1U);
  const auto refused = swap.swap(serving(), version("3"), SwapPolicy::kRolling);
  EXPECT_EQ(refused.status.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.status.error().message().find("1 of 2 are up"), std::string::npos)
      << refused.status.error().message();
  EXPECT_FALSE(refused.attempted);
  ASSERT_TRUE(swap.complete(serving()).ok());
  EXPECT_TRUE(swap.swap(serving(), version("3"), SwapPolicy::kRolling).status.ok());
  EXPECT_EQ(serving_version(), "3");
  // A refusal that no recovered replica can change is final.
  const auto never = [&](std::uint32_t replicas, const std::string& says) {
    const Status status = swapper(replicas).swap(serving(), version("4"), SwapPolicy::kRolling).status;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message().find(says), std::string::npos) << status.error().message();
  };
  never(3, "(3) as of the one that serves (2)");
  ASSERT_TRUE(swapper(1).swap(serving(), version("4"), SwapPolicy::kDrain).status.ok());
  never(1, "needs a model with several replicas");
}

/// Version 2 serves with one replica of two. The other one failed its verification.
struct UnverifiedReplica : SwapTest {
  void SetUp() override {
    farm.places = 2;
    ASSERT_TRUE(swap.swap(nullptr, version("1"), SwapPolicy::kAuto).status.ok());
    NextVersion next = version("2");
    next.stored = {1, {std::vector<std::byte>(16, std::byte{1})}, {std::vector<std::byte>(16, std::byte{1})}};
    farm.before_open = [&](const std::string& name) {
      taken = farm.open;
      farm.compute = test::echo;
      if (name != "2" || !wrong.contains(++opened)) return;
      farm.compute = [](Frame& frame) {
        test::echo(frame);
        frame.outputs[0][0] ^= std::byte{1};
      };
    };
    ASSERT_TRUE(swap.swap(serving(), next, SwapPolicy::kRolling).status.ok());
    ASSERT_EQ(Swapper::replica_count(serving()).there, 1U);
    opened = 0;
  }
  void expect(std::uint32_t there, const std::string& why_missing = "") {
    EXPECT_EQ(Swapper::replica_count(serving()).there, there);
    EXPECT_EQ(Swapper::replica_count(serving()).wanted, 2U);
    EXPECT_EQ(farm.open, there);
    EXPECT_EQ(why_missing.find("verification: frame 0") != std::string::npos, there < 2) << why_missing;
    std::array<std::byte, 16> in{}, out{};
    for (int i = 0; i < 4; ++i) {
      Frame frame;
      frame.inputs.emplace_back(in);
      frame.outputs.emplace_back(out);
      ASSERT_TRUE(serving()->pipeline().infer(frame).ok());
      EXPECT_EQ(in, out);
    }
  }

  Swapper swap = swapper(2);
  std::set<int> wrong{2};  // which of version 2 that are opened from here on compute something else
  int opened = 0;
  std::size_t taken = 0;  // places, when the last one was opened
};

TEST_F(UnverifiedReplica, IsRefusedAfterAFailedLoad) {
  for (const int bad : {1, 2}) {
    opened = 0;
    wrong = {bad};
    farm.fail["3"] = 2;
    const auto result = swap.swap(serving(), version("3"), SwapPolicy::kDrain);
    EXPECT_TRUE(result.rolled_back);
    ASSERT_TRUE(result.missing);
    expect(1, result.missing->message());
  }
  // Verification stays pending after a failed load and for every retried replica.
  wrong = {3};
  EXPECT_FALSE(swap.complete(serving()).ok());
  expect(1, "verification: frame 0");
  EXPECT_TRUE(swap.complete(serving()).ok());
  expect(2);
}

TEST_F(UnverifiedReplica, IsRefusedWhenALostVersionComesBack) {
  farm.fail["3"] = 2;
  farm.fail["2"] = 2;
  ASSERT_TRUE(swap.swap(serving(), version("3"), SwapPolicy::kDrain).lost);
  opened = 0;
  wrong = {1, 2, 3, 4};
  std::optional<Error> missing;
  EXPECT_FALSE(swap.bring_back(serving(), missing).ok()) << "none is better than wrong ones";
  EXPECT_EQ(farm.open, 0U);
  opened = 0;
  wrong = {1};
  ASSERT_TRUE(swap.bring_back(serving(), missing).ok());
  ASSERT_TRUE(missing);
  expect(1, missing->message());
  EXPECT_EQ(taken, 1U) << "the one that was refused kept its cards, or the next had got them";
}

TEST_F(UnverifiedReplica, IsVerifiedOnlyOnce) {
  ASSERT_TRUE(swap.complete(serving()).ok());
  expect(2);
  EXPECT_EQ(serving()->pending_verification(), nullptr);
}

TEST_F(SwapTest, ReplicasThatDoNotAllFitFailAndLeaveNoPipelineOpen) {
  farm.places = 2;
  Swapper swap = swapper(3);
  const auto result = swap.swap(nullptr, version("1"), SwapPolicy::kAuto);
  ASSERT_FALSE(result.status.ok());
  EXPECT_NE(result.status.error().message().find("replica 3 of 3"), std::string::npos);
  EXPECT_EQ(farm.open, 0U);
  EXPECT_EQ(serving(), nullptr);
}

TEST_F(SwapTest, TheOtherReplicasComputeTheFramesOfALostOne) {
  auto one = std::make_shared<FakePipeline>(), two = std::make_shared<FakePipeline>();
  one->on_submit = [] { return Error(ErrorCode::kUnavailable, "a card is lost"); };
  runtime::pipeline::Dispatcher both(one, 4);
  both.add(two);
  std::array<std::byte, 16> in{}, out{};
  for (int i = 0; i < 6; ++i) {
    Frame frame;
    frame.inputs.emplace_back(in);
    frame.outputs.emplace_back(out);
    EXPECT_TRUE(both.infer(frame).ok());
  }
  EXPECT_TRUE(both.ready());
  EXPECT_EQ(both.retire(), one);
  EXPECT_EQ(both.size(), 1U);
}

struct StoredTest : testing::Test {
  void write(const std::string& name, const NpyArray& array) {
    ASSERT_TRUE(write_npy(directory.path() / name, array).ok());
  }
  static NpyArray array(std::vector<std::uint64_t> shape, float first) {
    NpyArray made{"<f4", std::move(shape), {}};
    std::uint64_t elements = 1;
    for (const auto extent : made.shape) elements *= extent;
    for (std::uint64_t i = 0; i < elements; ++i) {
      const float value = first + static_cast<float>(i);
      const auto bytes = std::as_bytes(std::span(&value, 1));
      made.data.insert(made.data.end(), bytes.begin(), bytes.end());
    }
    return made;
  }
  void expect_refused(const std::string& says) {
    const auto stored = read_stored_frames(directory.path(), test::small_model());
    ASSERT_FALSE(stored.ok());
    EXPECT_NE(stored.error().message().find(says), std::string::npos) << stored.error().message();
  }
  TemporaryDirectory directory{"millrace-stored"};
};

TEST_F(StoredTest, VerificationNamesTheElementThatDiffers) {
  write("in0.npy", array({3, 2, 2}, 0));
  write("out0.npy", array({3, 4}, 0));
  auto stored = read_stored_frames(directory.path(), test::small_model());
  ASSERT_TRUE(stored.ok()) << stored.error().message();
  EXPECT_EQ(stored->frames, 3U);
  FakePipeline pipeline;
  EXPECT_TRUE(verify(pipeline, *stored, {}).ok());
  write("out0.npy", array({3, 4}, 1));
  stored = read_stored_frames(directory.path(), test::small_model());
  const Status verified = verify(pipeline, *stored, {});
  ASSERT_FALSE(verified.ok());
  EXPECT_NE(verified.error().message().find("frame 0, output 'y', element 0"), std::string::npos)
      << verified.error().message();
}

TEST_F(StoredTest, RefusesFilesThatContradictTheModelOrEachOther) {
  expect_refused("in0.npy");
  write("in0.npy", array({3, 2, 2}, 0));
  expect_refused("holds no output");
  write("out0.npy", array({2, 4}, 0));
  expect_refused("has 2 frames, another file 3");
  write("out0.npy", array({3, 5}, 0));
  expect_refused("needs the shape of tensor 'y'");
  NpyArray integers{"|u1", {3, 4}, std::vector<std::byte>(12)};
  write("out0.npy", integers);
  expect_refused("has type '|u1', tensor 'y' needs '<f4'");
  std::error_code ignored;
  std::filesystem::remove_all(directory.path(), ignored);
  const auto none = read_stored_frames(directory.path(), test::small_model());
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->frames, 0U);
}

TEST(DirectoryScan, FindsVersionsByNumberAndDetectsEveryChange) {
  const TemporaryDirectory root("millrace-root");
  const auto add = [&](const std::string& path) {
    std::filesystem::create_directories((root.path() / path).parent_path());
    ASSERT_TRUE(write_file_atomically(root.path() / path, "x").ok());
  };
  for (const std::string path : {"m/1/deployment.json", "m/10/model.onnx", "m/2/other", "m/01/model.onnx",
                                 "m/a/model.onnx", ".hidden/1/model.onnx", "file", "empty/x/y"})
    add(path);
  const auto found = scan(root.path());
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1U);
  const Versions& versions = found->at("m").versions;
  ASSERT_EQ(versions.size(), 3U);
  EXPECT_EQ(versions.at(1).kind, VersionDirectory::Kind::kDeployment);
  EXPECT_EQ(versions.at(2).kind, VersionDirectory::Kind::kNothing);
  EXPECT_EQ(versions.rbegin()->first, 10U);
  EXPECT_EQ(*scan(root.path()), *found) << "the same while nothing changes";
  add("m/1/images/a");
  EXPECT_NE(scan(root.path())->at("m").versions.at(1).fingerprint, versions.at(1).fingerprint);
  EXPECT_EQ(scan(root.path())->at("m").versions.at(10).fingerprint, versions.at(10).fingerprint);
  EXPECT_EQ(scan(root.path() / "none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(parse_version("18446744073709551616"), 0U);
  EXPECT_EQ(parse_version("-1"), 0U);
  EXPECT_EQ(parse_version(""), 0U);
}

}  // namespace
}  // namespace millrace::server::models
