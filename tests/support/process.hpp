// Runs programs under test, either to their end or in the background until they are stopped by process id.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace millrace::tests {

struct Outcome {
  int exit_code = -1;  // 128 + signal if a signal ended it; -1 if it was killed for taking too long
  std::string out, err;
};

/// Runs a program to its end, for at most `limit`. `environment` entries ("NAME=value") are added to this
/// process's.
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {},
                    std::chrono::seconds limit = std::chrono::seconds(300));

/// A program that runs until it is stopped. The destructor kills it with SIGKILL if it still runs.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& command,
                             const std::vector<std::string>& environment = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  pid_t pid() const { return pid_; }

  /// The rest of the first line of standard output that starts with `prefix`; nullopt if the program ended or
  /// the time passed first.
  std::optional<std::string> wait_for_line(const std::string& prefix, std::chrono::seconds limit);

  /// Sends the signal, waits for the end, and returns the exit code as in Outcome.
  int stop(int signal, std::chrono::seconds limit = std::chrono::seconds(30));
  bool running();

  /// What the program has written to standard error so far.
  std::string err() const;

 private:
  int wait_for_end(std::chrono::seconds limit);

  pid_t pid_ = -1;
  int out_ = -1;
  std::string err_path_;
  std::string buffered_;
  std::optional<int> ended_;
};

/// The direct children of a process whose program is called `name`, as in /proc/<pid>/comm (15 characters).
std::vector<pid_t> children_named(pid_t parent, const std::string& name);
bool process_exists(pid_t pid);
std::size_t open_descriptors(pid_t pid);

/// Waits until every other thread of this process sleeps. Descriptors of ended processes and threads that
/// were about to end are then gone and can be counted. Returns false after a minute.
bool await_rest();

/// The path of this build's `millrace`.
std::string millrace_binary();

}  // namespace millrace::tests
