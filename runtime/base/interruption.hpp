// Removes unfinished files and directories before Ctrl-C, SIGTERM or SIGHUP ends the process.
//
// The functions of file.hpp register their temporaries here. Without an InterruptionHandler the signals keep
// their meaning and registering costs next to nothing.
#pragma once

#include <filesystem>
#include <functional>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace millrace {

/// Handles SIGINT, SIGTERM and SIGHUP, unless the process was started with the signal ignored (nohup). On the
/// first signal a thread removes everything Unfinished, calls `say` and ends the process by the same signal,
/// so that a shell sees exit code 130, 143 or 129. One object a process; the thread that runs the command
/// owns it.
class InterruptionHandler {
 public:
  /// `written`: the files and directories that were put in place before the signal, and stay.
  using Say = std::function<void(int signal, const std::vector<std::filesystem::path>& written)>;
  explicit InterruptionHandler(Say say);
  /// Restores the signals. Does not return after a signal: the process ends.
  ~InterruptionHandler();
  InterruptionHandler(const InterruptionHandler&) = delete;
  InterruptionHandler& operator=(const InterruptionHandler&) = delete;

 private:
  int read_ = -1;
  std::thread thread_;
};

/// Hold the result while you change files below something Unfinished, for one change. An interruption waits
/// until it is released, and no change begins after an interruption. Holders do not wait for each other. A
/// thread must not hold two.
[[nodiscard]] std::shared_lock<std::shared_mutex> hold_off_interruption();

/// A temporary file or directory that is to be renamed. An interruption removes it with its content. Any
/// thread. One may be inside another.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path temporary);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  /// Calls `rename`, which renames the temporary to `target` and returns 0 or an errno, and returns its
  /// result. An interruption comes before or after, not during the call.
  int put_in_place(const std::filesystem::path& target, const std::function<int()>& rename);

 private:
  const std::filesystem::path temporary_;
};

}  // namespace millrace
