// Tests loads of a repository, with pipelines without cards: which loads join a load that is compiling, and which are
// refused because of the version in service.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "server/models/repository.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/host_deployment.hpp"

namespace millrace::server::models::test_load_jobs {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// A test with a repository. Version 1 of "m" is a deployment with an output "y". Version 2 is a model that compiles to
/// a deployment with an output "z". The compiler waits until end_compiler().
class LoadJobs : public testing::Test {
 protected:
  explicit LoadJobs(RepositoryMode mode = RepositoryMode::kExplicit) {
    tests::write_host_deployment(root_ / "m" / "1", 1);
    tests::write_host_deployment(scratch_.path() / "compiled", 2, "z");
    fs::create_directories(root_ / "m" / "2");
    write(root_ / "m" / "2" / "model.onnx", "a model");
    // The script writes to the folder that is the last argument of `compile`.
    write(scratch_.path() / "compiler.sh", "cat '" + hold_.string() + "' > '" + scratch_.path().string() +
                                               "/read' && for out; do :; done && cp -r '" +
                                               scratch_.path().string() + "/compiled' \"$out\"\n");
    EXPECT_EQ(::mkfifo(hold_.c_str(), 0600), 0);

    PipelineSource source;
    source.open = [this](const PipelineSource::Deployment& deployment,
                         std::uint32_t) -> Result<std::shared_ptr<runtime::pipeline::Pipeline>> {
      MILLRACE_TRY(on_open_());
      return std::shared_ptr<runtime::pipeline::Pipeline>(
          std::make_shared<test::FakePipeline>(deployment->plan));
    };
    source.check = [](const PipelineSource::Deployment&, const std::vector<std::string>&, std::uint32_t) {
      return Status();
    };
    swapper_.emplace(registry_, *metrics_, std::move(source), SwapOptions());
    RepositoryOptions options;
    options.root = root_;
    options.mode = mode;
    options.poll = 10ms;
    options.compiler = Compiler{{"/bin/sh", (scratch_.path() / "compiler.sh").string()}, "cluster", "1"};
    options.cache = *Cache::open(scratch_.path() / "cache");
    repository_.emplace(registry_, *metrics_, *swapper_, std::move(options));
    EXPECT_TRUE(repository_->start().ok());
  }
  ~LoadJobs() override {
    if (writer_ >= 0) ::close(writer_);
  }

  std::future<Status> begin_load(const LoadOrder& order) {
    auto ended = std::make_shared<std::promise<Status>>();
    auto future = ended->get_future();
    const Status taken =
        repository_->load(order, [ended](const Status& status) { ended->set_value(status); });
    if (!taken.ok()) ended->set_value(taken);
    return future;
  }
  Status load(const LoadOrder& order) { return begin_load(order).get(); }
  /// Waits until a compiler has started and is itself waiting. Returns false if that does not happen in time.
  bool wait_for_compiler() {
    return tests::wait_until([&] {
      writer_ = ::open(hold_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      return writer_ >= 0;
    });
  }
  void end_compiler() { ::close(std::exchange(writer_, -1)); }
  std::string serving(const std::string& name = "m") const {
    const auto model = registry_.snapshot()->find(name, "");
    return model == nullptr ? "" : model->version();
  }

  void write(const fs::path& path, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(path, text).ok());
  }

  TemporaryDirectory scratch_{"millrace-load-jobs"};
  const fs::path root_ = scratch_.path() / "models", hold_ = scratch_.path() / "hold";
  std::unique_ptr<metrics::Metrics> metrics_ = metrics::Metrics::create("1");
  Registry registry_;
  std::function<Status()> on_open_ = [] { return Status(); };
  std::optional<Swapper> swapper_;
  std::optional<Repository> repository_;
  int writer_ = -1;
};

/// Returns how many warnings contain the text.
int warnings(const std::string& text) {
  int count = 0;
  for (const auto& entry : log::recent())
    if (entry.message.find(text) != std::string::npos) ++count;
  return count;
}

const LoadOrder kFirst = {"m", "1", std::nullopt}, kSecond = {"m", "2", std::nullopt};
const LoadOrder kForced = {"m", "2", std::nullopt, false, true};

TEST_F(LoadJobs, AForcedLoadDoesNotShareTheResultOfAnUnforcedLoad) {
  ASSERT_TRUE(load(kFirst).ok());
  auto unforced = begin_load(kSecond);
  ASSERT_TRUE(wait_for_compiler());
  auto forced = begin_load(kForced), joins = begin_load(kSecond);
  end_compiler();
  const Status refused = unforced.get();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(refused.error().message().find("output 'y' is gone; output 'z', "), std::string::npos)
      << refused.error().message();
  EXPECT_FALSE(joins.get().ok()) << "which was asked for in the same way";
  EXPECT_TRUE(forced.get().ok());
  EXPECT_EQ(serving(), "2");
}

TEST_F(LoadJobs, APinningLoadDoesNotShareTheResultOfALoadWithoutAPin) {
  auto plain = begin_load(kSecond);
  ASSERT_TRUE(wait_for_compiler());
  auto pins = begin_load({"m", "2", std::nullopt, true});
  end_compiler();
  EXPECT_TRUE(plain.get().ok());
  EXPECT_TRUE(pins.get().ok());
  EXPECT_EQ(read_pin(root_ / "m").version, 2U);
}

TEST_F(LoadJobs, AcceptsOtherInputsAndOutputsIfNoVersionOfTheModelIsServed) {
  ASSERT_TRUE(load(kFirst).ok());
  std::promise<Status> unloaded;
  ASSERT_TRUE(repository_->unload("m", "", [&](const Status& status) { unloaded.set_value(status); }).ok());
  ASSERT_TRUE(unloaded.get_future().get().ok());
  auto second = begin_load(kSecond);
  ASSERT_TRUE(wait_for_compiler());
  end_compiler();
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(serving(), "2");
}

TEST_F(LoadJobs, ARefusalNamesTheVersionThatARestartWouldServe) {
  constexpr char kRestart[] = "A restart would serve version '2' all the same";
  constexpr char kKeep[] = "to keep version '1', pin it: millrace reload --model m --version 1 --pin";
  ASSERT_TRUE(load(kFirst).ok());
  auto second = begin_load(kSecond);
  ASSERT_TRUE(wait_for_compiler());
  end_compiler();
  std::string refused = second.get().error().message();
  EXPECT_NE(refused.find(kRestart), std::string::npos) << refused;
  EXPECT_NE(refused.find(kKeep), std::string::npos) << refused;

  tests::write_host_deployment(root_ / "m" / "3", 3);
  refused = load(kSecond).error().message();
  EXPECT_NE(refused.find("--force"), std::string::npos) << refused;
  EXPECT_EQ(refused.find("restart"), std::string::npos) << "it would serve version 3: " << refused;
}

TEST_F(LoadJobs, RefusalSaysThatAFailedVersionIsBeingRestarted) {
  ASSERT_TRUE(load(kFirst).ok());
  tests::write_host_deployment(root_ / "m" / "3", 3);
  on_open_ = [] { return Error(ErrorCode::kUnavailable, "the card is gone"); };
  ASSERT_FALSE(load({"m", "3", SwapPolicy::kDrain}).ok());
  auto second = begin_load(kSecond);
  ASSERT_TRUE(wait_for_compiler());
  end_compiler();
  const std::string refused = second.get().error().message();
  EXPECT_NE(refused.find("differ from those of version '1', which is being brought up again: "),
            std::string::npos)
      << refused;
}

TEST_F(LoadJobs, TheLogSaysWhyAJobFailed) {
  ASSERT_TRUE(load(kFirst).ok());
  EXPECT_FALSE(load({"m", "31", std::nullopt}).ok());
  EXPECT_EQ(warnings("model 'm' has no version '31' in the repository"), 1);
  EXPECT_FALSE(load({"absent", "1", std::nullopt, true}).ok());
  EXPECT_EQ(warnings("the repository has no model 'absent'"), 1);

  std::promise<Status> unpinned;
  ASSERT_TRUE(repository_->unpin("m", [&](const Status& status) { unpinned.set_value(status); }).ok());
  EXPECT_FALSE(unpinned.get_future().get().ok());
  EXPECT_EQ(warnings("model 'm' is not pinned"), 1);

  ASSERT_TRUE(write_pin(root_ / "m", 1).ok());
  EXPECT_FALSE(load(kSecond).ok());
  EXPECT_EQ(warnings("model 'm' is pinned to version '1', so version '2' is not loaded"), 1);
}

TEST_F(LoadJobs, TheLogSaysThatAVersionServesAndIsNotPinned) {
  on_open_ = [this] {
    fs::create_directory(root_ / "m" / "PIN");
    return Status();
  };
  EXPECT_FALSE(load({"m", "1", std::nullopt, true}).ok());
  EXPECT_EQ(serving(), "1");
  EXPECT_EQ(warnings("model 'm' version '1' serves, and is not pinned: "), 1);
}

TEST_F(LoadJobs, TheLogSaysOnceWhyAVersionDoesNotLoad) {
  on_open_ = [] { return Error(ErrorCode::kEnvironment, "the card is on fire"); };
  EXPECT_FALSE(load(kFirst).ok());
  EXPECT_EQ(warnings("the card is on fire"), 1);
}

struct PollingLoadJobs : LoadJobs {
  PollingLoadJobs() : LoadJobs(RepositoryMode::kPoll) {}
  void pin(const std::string& model, const std::string& content) { write(root_ / model / "PIN", content); }
  /// Waits until the repository has polled once more. Then every job that needs no compiler has ended.
  void wait_for_poll() {
    fs::create_directories(root_ / "broken");
    for (int poll = 0; poll < 2; ++poll) {
      const std::string content = "poll-" + std::to_string(++polls_);
      pin("broken", content);
      ASSERT_TRUE(tests::wait_until([&] { return warnings("holds '" + content + "'") == 1; }));
    }
  }

  int polls_ = 0;
};

TEST_F(PollingLoadJobs, PinEditedWhileTheQueueIsFullTakesEffectLater) {
  ASSERT_TRUE(wait_for_compiler()) << "of version 2 of model 'm', which all its later jobs wait for";
  for (const int version : {1, 2})
    tests::write_host_deployment(root_ / "n" / std::to_string(version), version);
  ASSERT_TRUE(tests::wait_until([&] { return serving("n") == "2"; }));
  pin("n", "1");
  ASSERT_TRUE(tests::wait_until([&] { return serving("n") == "1"; }));
  wait_for_poll();

  Status taken;
  for (int job = 0; taken.ok() && job < 100; ++job) taken = repository_->unpin("m", nullptr);
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code(), ErrorCode::kResourceExhausted);
  pin("n", "2");
  wait_for_poll();
  EXPECT_EQ(serving("n"), "1");
  end_compiler();
  EXPECT_TRUE(tests::wait_until([&] { return serving("n") == "2"; }, 20s));
}

}  // namespace
}  // namespace millrace::server::models::test_load_jobs
