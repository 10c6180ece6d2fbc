// Runs programs under test, either to their end or in the background until the test stops them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace millrace::tests {

struct Outcome {
  int exit_code = -1;  // 128 + signal if a signal ended the program; -1 if it ran too long and was killed
  std::string out, err;
};

/// Runs a program until it ends, or kills it after `limit`. The program gets this process's environment plus the
/// entries of `environment` ("NAME=value").
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {},
                    std::chrono::seconds limit = std::chrono::seconds(300));

/// A program that runs in the background. The destructor kills it with SIGKILL if it still runs.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& command,
                             const std::vector<std::string>& environment = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  pid_t pid() const { return pid_; }

  /// Waits for a line of standard output that starts with `prefix` and returns the rest of that line. Returns nullopt
  /// if the program ends or the time limit passes first.
  std::optional<std::string> wait_for_line(const std::string& prefix, std::chrono::seconds limit);

  /// Sends the signal, waits until the program ends, and returns the exit code as in Outcome.
  int stop(int signal, std::chrono::seconds limit = std::chrono::seconds(30));
  bool running();

  /// Returns what the program has written to standard error so far.
  std::string err() const;

 private:
  int wait_for_end(std::chrono::seconds limit);

  pid_t pid_ = -1;
  int out_ = -1;
  std::string err_path_;
  std::string buffered_;
  std::optional<int> ended_;
};

/// Returns the direct children of `parent` whose /proc/<pid>/comm is `name`. The kernel cuts comm to 15 characters.
std::vector<pid_t> children_named(pid_t parent, const std::string& name);
bool process_exists(pid_t pid);
std::size_t open_descriptors(pid_t pid);

/// Waits until every other thread of this process sleeps. Threads that were about to end are then gone, so the test can
/// count descriptors and threads. Returns false after a minute.
bool await_rest();

/// Returns the path of this build's `millrace` program.
std::string millrace_binary();

}  // namespace millrace::tests
