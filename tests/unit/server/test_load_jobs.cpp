// Loads of a repository over pipelines without cards: which loads join one that compiles, and which are
// refused for the version that serves.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "server/models/repository.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/host_deployment.hpp"

namespace millrace::server::models {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// Version 1 of "m" is a deployment with an output "y". Version 2 is a model that compiles to one with an
/// output "z". The compiler waits until end_compiler().
class LoadJobs : public testing::Test {
 protected:
  LoadJobs() {
    tests::write_host_deployment(root_ / "m" / "1", 1);
    tests::write_host_deployment(scratch_.path() / "compiled", 2, "z");
    fs::create_directories(root_ / "m" / "2");
    write(root_ / "m" / "2" / "model.onnx", "a model");
    // The last argument of `compile` is the folder to write.
    write(scratch_.path() / "compiler.sh", "cat '" + hold_.string() + "' > '" + scratch_.path().string() +
                                               "/read' && for out; do :; done && cp -r '" +
                                               scratch_.path().string() + "/compiled' \"$out\"\n");
    EXPECT_EQ(::mkfifo(hold_.c_str(), 0600), 0);

    PipelineSource source;
    source.open = [](const PipelineSource::Deployment& deployment,
                     std::uint32_t) -> Result<std::shared_ptr<runtime::pipeline::Pipeline>> {
      return std::shared_ptr<runtime::pipeline::Pipeline>(
          std::make_shared<test::FakePipeline>(deployment->plan));
    };
    source.check = [](const PipelineSource::Deployment&, const std::vector<std::string>&, std::uint32_t) {
      return Status();
    };
    swapper_.emplace(registry_, *metrics_, std::move(source), SwapOptions());
    RepositoryOptions options;
    options.root = root_;
    options.mode = RepositoryMode::kExplicit;
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
  /// False where no compiler came to its waiting place.
  bool wait_for_compiler() {
    return tests::wait_until([&] {
      writer_ = ::open(hold_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
      return writer_ >= 0;
    });
  }
  void end_compiler() { ::close(std::exchange(writer_, -1)); }
  std::string serving() const {
    const auto model = registry_.snapshot()->find("m", "");
    return model == nullptr ? "" : model->version();
  }

  void write(const fs::path& path, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(path, text).ok());
  }

  TemporaryDirectory scratch_{"millrace-load-jobs"};
  const fs::path root_ = scratch_.path() / "models", hold_ = scratch_.path() / "hold";
  std::unique_ptr<metrics::Metrics> metrics_ = metrics::Metrics::create("1");
  Registry registry_;
  std::optional<Swapper> swapper_;
  std::optional<Repository> repository_;
  int writer_ = -1;
};

const LoadOrder kFirst = {"m", "1", std::nullopt}, kSecond = {"m", "2", std::nullopt};
const LoadOrder kForced = {"m", "2", std::nullopt, false, true};

TEST_F(LoadJobs, AForcedLoadDoesNotJoinOneThatIsNotForced) {
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

TEST_F(LoadJobs, ALoadThatPinsDoesNotJoinOneThatDoesNot) {
  auto plain = begin_load(kSecond);
  ASSERT_TRUE(wait_for_compiler());
  auto pins = begin_load({"m", "2", std::nullopt, true});
  end_compiler();
  EXPECT_TRUE(plain.get().ok());
  EXPECT_TRUE(pins.get().ok());
  EXPECT_EQ(read_pin(root_ / "m").version, 2U);
}

TEST_F(LoadJobs, NothingIsComparedWhereNothingServes) {
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

}  // namespace
}  // namespace millrace::server::models
