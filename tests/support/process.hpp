// Runs programs under test: their exit code and output, or a server that is ended by its own process id.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace millrace::tests {

struct Outcome {
  int exit_code = -1;  // 128 + signal where one ended it; -1 where it was killed for taking too long
  std::string out, err;
};

/// Runs to its end, at most `limit`. `environment` entries ("NAME=value") are added to this process's.
Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment = {},
                    std::chrono::seconds limit = std::chrono::seconds(300));

/// A program that goes on until stopped. The destructor kills it (SIGKILL) where it still runs.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::vector<std::string>& command,
                             const std::vector<std::string>& environment = {});
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

  pid_t pid() const { return pid_; }

  /// The rest of the first line of standard output that starts with `prefix`; nothing where the program ended
  /// or the time passed first.
  std::optional<std::string> wait_for_line(const std::string& prefix, std::chrono::seconds limit);

  /// Sends the signal and waits for the end; the exit code as in Outcome.
  int stop(int signal, std::chrono::seconds limit = std::chrono::seconds(30));
  bool running();

  /// What it wrote on standard error so far.
  std::string err() const;

 private:
  int wait_for_end(std::chrono::seconds limit);

  pid_t pid_ = -1;
  int out_ = -1;
  std::string err_path_;
  std::string buffered_;
  std::optional<int> ended_;
};

/// Direct children of a process whose program's name is `name` (as /proc/<pid>/comm has it, 15 characters).
std::vector<pid_t> children_named(pid_t parent, const std::string& name);
bool process_exists(pid_t pid);
std::size_t open_descriptors(pid_t pid);

/// Waits until every other thread of this process sleeps: what they were about, the descriptors of a process
/// that ended or their own end, is done and can be counted. False after a minute.
bool await_rest();

/// The `millrace` binary of this build.
std::string millrace_binary();

}  // namespace millrace::tests
