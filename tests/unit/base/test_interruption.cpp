// Tests what SIGINT, SIGTERM and SIGHUP leave behind of a directory that is being written. A child process writes the
// directory, because the signal ends the process.
#include "runtime/base/interruption.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "runtime/base/file.hpp"

namespace millrace::test_interruption {
namespace {

namespace fs = std::filesystem;

class Interruption : public testing::Test {
 protected:
  /// Runs `command` in a child process with an InterruptionHandler. Sends `signal` once `command` has called `ready`,
  /// and returns the child's wait status. Afterwards said() returns what the handler recorded.
  int interrupt(int signal, const std::function<void(const std::function<void()>& ready)>& command) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const InterruptionHandler handler([&](int number, const auto& written) {
        std::string text = std::to_string(number);
        for (const auto& path : written) text += " " + path.filename().string();
        static_cast<void>(write_scratch_file(dir_.path() / "said", text));
      });
      command([&] { [[maybe_unused]] const auto sent = ::write(pipe[1], "r", 1); });
      ::_exit(0);
    }
    ::close(pipe[1]);
    char ready = 0;
    EXPECT_EQ(::read(pipe[0], &ready, 1), 1);
    ::close(pipe[0]);
    ::kill(child, signal);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  std::string said() const {
    const auto text = read_text_file(dir_.path() / "said");
    return text.ok() ? *text : "nothing";
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()));
  }

  TemporaryDirectory dir_{"millrace-interruption"};
};

/// Writes one directory after another until the process ends.
Status write_for_ever(const fs::path& temporary, const std::function<void()>& ready) {
  for (int n = 0;; ++n) {
    const fs::path folder = temporary / std::to_string(n);
    MILLRACE_TRY(make_folders(folder));
    MILLRACE_TRY(write_new_file(folder / "file", "text"));
    if (n == 20) ready();
  }
}

TEST_F(Interruption, SignalRemovesTheUnfinishedDirectoryAndEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = interrupt(signal, [&](const auto& ready) {
      static_cast<void>(write_directory_atomically(
          dir_.path() / "d", [&](const fs::path& temporary) { return write_for_ever(temporary, ready); }));
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(said(), std::to_string(signal));
    EXPECT_EQ(entries(), 1U) << "more than what the handler said";
  }
}

TEST_F(Interruption, FilesFinishedBeforeTheSignalAreKeptAndNamed) {
  const int status = interrupt(SIGTERM, [&](const auto& ready) {
    static_cast<void>(write_directory_atomically(dir_.path() / "whole", [&](const fs::path& temporary) {
      return write_directory_atomically(
          temporary / "inner", [](const fs::path& inner) { return write_new_file(inner / "x", "x"); });
    }));
    static_cast<void>(write_file_atomically(dir_.path() / "file", "x"));
    static_cast<void>(write_directory_atomically(
        dir_.path() / "d", [&](const fs::path& temporary) { return write_for_ever(temporary, ready); }));
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(said(), std::to_string(SIGTERM) + " whole file");
  EXPECT_EQ(entries(), 3U) << "whole, file and said";
  EXPECT_TRUE(fs::exists(dir_.path() / "whole" / "inner" / "x"));
}

TEST_F(Interruption, KeepsAnIgnoredSignalIgnored) {
  ::signal(SIGHUP, SIG_IGN);
  const int status = interrupt(SIGHUP, [&](const auto& ready) { ready(); });
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(said(), "nothing");
}

TEST_F(Interruption, RestoresTheSignalHandlersWhenDestroyed) {
  const auto action = [](int number) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    return now.sa_handler;
  };
  const auto before = action(SIGTERM);
  {
    const InterruptionHandler handler([](int, const auto&) {});
    EXPECT_NE(action(SIGTERM), before);
  }
  EXPECT_EQ(action(SIGTERM), before);
}

}  // namespace
}  // namespace millrace::test_interruption
