#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "runtime/base/cache.hpp"
#include "runtime/base/file.hpp"

namespace millrace::test_cache {
namespace {

namespace fs = std::filesystem;

class CacheTest : public testing::Test {
 protected:
  Cache cache() const {
    auto opened = Cache::open(directory_.path() / "cache");
    if (!opened.ok()) throw std::runtime_error(opened.error().message());
    return *opened;
  }
  Cache::Make counted(const std::string& text) {
    return [this, text](const fs::path& entry, const fs::path& scratch) -> Status {
      ++made_;
      std::ofstream(scratch / "thrown away") << "x";
      return write_file_atomically(entry / "value", text);
    };
  }
  std::size_t left_in_tmp() const {
    const auto tmp = directory_.path() / "cache" / "tmp";
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(tmp), fs::directory_iterator()));
  }

  TemporaryDirectory directory_{"millrace-cache"};
  std::atomic<int> made_{0};
};

TEST_F(CacheTest, CreatesAnEntryOnceAndReusesTheEntryAfterwards) {
  EXPECT_FALSE(cache().find("thing", "k1").has_value());
  for (int i = 0; i < 3; ++i) {
    const auto entry = cache().get("thing", "k1", counted("hello"));
    ASSERT_TRUE(entry.ok()) << entry.error().message();
    EXPECT_EQ(read_text_file(*entry / "value").value(), "hello");
    EXPECT_FALSE(fs::exists(*entry / "thrown away"));
  }
  EXPECT_EQ(made_, 1);
  EXPECT_TRUE(cache().find("thing", "k1").has_value());
  EXPECT_EQ(left_in_tmp(), 0U);
}

TEST_F(CacheTest, RecreatesADamagedEntry) {
  const auto entry = cache().get("thing", "k1", counted("hello"));
  ASSERT_TRUE(entry.ok());
  const std::vector<std::function<void()>> damages = {
      [&] { std::ofstream(*entry / "value") << "hellp"; },
      [&] { fs::resize_file(*entry / "value", 2); },
      [&] { fs::remove(*entry / "value"); },
      [&] { fs::remove(*entry / "SHA256SUMS"); },
      [&] { std::ofstream(*entry / "more") << "x"; },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    damages[i]();
    EXPECT_FALSE(cache().find("thing", "k1").has_value()) << "damage " << i;
    ASSERT_TRUE(cache().get("thing", "k1", counted("hello")).ok());
    EXPECT_EQ(made_, static_cast<int>(i) + 2);
    EXPECT_TRUE(cache().find("thing", "k1").has_value());
  }
}

TEST_F(CacheTest, LeavesNoFilesWhenCreatingAnEntryFails) {
  const auto entry = cache().get("thing", "k1", [](const fs::path& into, const fs::path&) -> Status {
    std::ofstream(into / "half") << "x";
    return Error(ErrorCode::kEnvironment, "the tool is gone");
  });
  ASSERT_FALSE(entry.ok());
  EXPECT_EQ(entry.error().message(), "the tool is gone");
  EXPECT_FALSE(cache().find("thing", "k1").has_value());
  EXPECT_EQ(left_in_tmp(), 0U);
  EXPECT_TRUE(cache().get("thing", "k1", counted("hello")).ok());
}

TEST_F(CacheTest, RemovesFilesThatAKilledProcessLeftBehind) {
  cache();
  const pid_t maker = ::fork();
  if (maker == 0) {
    const auto entry = cache().get("thing", "k1", [](const fs::path& into, const fs::path&) -> Status {
      std::ofstream(into / "half") << "x";
      ::raise(SIGKILL);
      return {};
    });
    ::_exit(entry.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(maker, &status, 0), maker);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(cache().find("thing", "k1").has_value());
  EXPECT_EQ(left_in_tmp(), 1U);
  const auto entry = cache().get("thing", "k1", counted("hello"));
  ASSERT_TRUE(entry.ok());
  EXPECT_FALSE(fs::exists(*entry / "half"));
  EXPECT_EQ(left_in_tmp(), 0U);
}

TEST_F(CacheTest, NewScratchFolderReplacesThatOfAKilledProcess) {
  const auto mine = cache().folder("run");
  ASSERT_TRUE(mine.ok()) << mine.error().message();
  std::ofstream(mine->path() / "file") << "x";
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto killed = cache().folder("run"), other = cache().folder("other");
    std::ofstream(killed->path() / "half") << "x";
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(left_in_tmp(), 3U);
  {
    const auto next = cache().folder("run");
    ASSERT_TRUE(next.ok());
    EXPECT_NE(next->path(), mine->path());
    EXPECT_EQ(left_in_tmp(), 3U) << "only the folder of the killed process is removed";
    EXPECT_TRUE(fs::exists(mine->path() / "file")) << "its owner lives";
  }
  EXPECT_EQ(left_in_tmp(), 2U);
  ASSERT_TRUE(cache().folder("other").ok());
  EXPECT_EQ(left_in_tmp(), 1U);
  fs::create_directory(directory_.path() / "cache/tmp/run.1.0");  // as if a killed process had left it
  ASSERT_TRUE(cache().folder("run").ok());
  EXPECT_EQ(left_in_tmp(), 1U);
  for (const char* use : {"", "a/b", "a.b"})
    EXPECT_EQ(cache().folder(use).error().code(), ErrorCode::kInternal) << use;
}

TEST_F(CacheTest, OnlyOneOfSeveralThreadsCreatesAnEntry) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0}, waiting{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto make = counted("hello");
      const auto slow = [&](const fs::path& into, const fs::path& scratch) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
        while (waiting < 7 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
        return make(into, scratch);
      };
      good += cache().get("thing", "k1", slow, [&] { ++waiting; }).ok() ? 1 : 0;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(made_, 1);
}

TEST_F(CacheTest, WaitingForAnotherProcessToCreateAnEntryCanBeStopped) {
  const fs::path file = cache().root() / "locks" / "k1";
  const int other = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  std::stop_source stop;
  std::promise<void> waits;
  auto got = std::async(std::launch::async, [&] {
    return cache().get(
        "thing", "k1", counted("hello"), [&] { waits.set_value(); }, stop.get_token());
  });
  waits.get_future().wait();
  EXPECT_EQ(got.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  stop.request_stop();
  const bool ended = got.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  EXPECT_TRUE(ended);
  ::close(other);  // otherwise get() would never return
  const auto stopped = got.get();
  ASSERT_EQ(stopped.ok(), !ended);
  EXPECT_TRUE(stopped.ok() || stopped.error().code() == ErrorCode::kCancelled);
  EXPECT_EQ(left_in_tmp(), 0U);
  EXPECT_TRUE(cache().get("thing", "k1", counted("hello"), {}, std::stop_source().get_token()).ok());
  EXPECT_EQ(made_, 1);
}

TEST_F(CacheTest, CreatesTheEntryIfAnotherProcessDiesWhileCreatingTheEntry) {
  const fs::path file = cache().root() / "locks" / "k1";
  const int other = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  const std::stop_source stop;
  std::promise<void> waits;
  auto got = std::async(std::launch::async, [&] {
    return cache().get(
        "thing", "k1", counted("hello"), [&] { waits.set_value(); }, stop.get_token());
  });
  waits.get_future().wait();
  ::close(other);
  EXPECT_TRUE(got.get().ok());
  EXPECT_EQ(made_, 1);
}

TEST_F(CacheTest, AFullDiskIsReportedAndLeavesNoFiles) {
  cache();
  const pid_t maker = ::fork();
  if (maker == 0) {
    // Limit the size of files, so that writes fail as on a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto entry = cache().get("thing", "k1", [](const fs::path& into, const fs::path&) {
      return write_file_atomically(into / "value", std::string(1000, 'x'));
    });
    ::_exit(entry.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(maker, &status, 0), maker);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_FALSE(cache().find("thing", "k1").has_value());
  EXPECT_EQ(left_in_tmp(), 0U);
}

TEST_F(CacheTest, RefusesADirectoryThatOthersCanWriteTo) {
  const fs::path root = directory_.path() / "shared";
  fs::create_directory(root);
  ASSERT_EQ(::chmod(root.c_str(), 0777), 0);
  const auto opened = Cache::open(root);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(opened.error().message().find("chmod 700"), std::string::npos);
  const auto nowhere = Cache::open("/proc/nothing/here");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code(), ErrorCode::kEnvironment);
}

TEST_F(CacheTest, RefusesADirectoryWithForeignFilesAndLeavesItUnchanged) {
  for (const char* root : {"/", "//", "/tmp/.."}) {
    const auto opened = Cache::open(root);
    ASSERT_FALSE(opened.ok()) << root;
    EXPECT_EQ(opened.error().code(), ErrorCode::kEnvironment);
    EXPECT_NE(opened.error().message().find("cannot be a cache"), std::string::npos)
        << opened.error().message();
  }
  const fs::path home = directory_.path() / "home";
  fs::create_directories(home / "letters");
  fs::permissions(home, fs::perms::owner_all);  // independent of the umask
  const auto opened = Cache::open(home);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find("is not a cache of Millrace"), std::string::npos)
      << opened.error().message();
  EXPECT_FALSE(fs::exists(home / "tmp"));
  const fs::path volume = directory_.path() / "volume";
  fs::create_directories(volume / "lost+found");
  fs::permissions(volume, fs::perms::owner_all);
  EXPECT_TRUE(Cache::open(volume).ok()) << "a new file system holds lost+found";
  std::ofstream(volume / "more") << "x";
  EXPECT_TRUE(Cache::open(volume).ok()) << "the directory is already a cache";
}

TEST_F(CacheTest, EnvironmentVariablesChooseTheDirectory) {
  ::setenv("MILLRACE_CACHE", (directory_.path() / "given").c_str(), 1);
  EXPECT_EQ(Cache::open()->root(), directory_.path() / "given");
  ::unsetenv("MILLRACE_CACHE");
  ::setenv("XDG_CACHE_HOME", directory_.path().c_str(), 1);
  EXPECT_EQ(Cache::open()->root(), directory_.path() / "millrace");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", directory_.path().c_str(), 1);
  EXPECT_EQ(Cache::open()->root(), directory_.path() / ".cache" / "millrace");
  ::unsetenv("HOME");
  EXPECT_EQ(Cache::open().error().code(), ErrorCode::kEnvironment);
}

}  // namespace
}  // namespace millrace::test_cache
