// Removes unfinished files and directories before Ctrl-C, SIGTERM or SIGHUP ends the process.
//
// The functions of file.hpp register their temporary files here. Without an InterruptionHandler the signals
// keep their usual effect, and registering costs almost nothing.
#pragma once

#include <filesystem>
#include <functional>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace millrace {

/// Handles SIGINT, SIGTERM and SIGHUP, except a signal that the process was started to ignore (nohup). On the first
/// signal a thread removes all Unfinished files, calls `say` and ends the process by the same signal, so that a shell
/// sees exit code 130, 143 or 129. A process has at most one handler; the thread that runs the command owns it.
class InterruptionHandler {
 public:
  /// `written` lists the files and directories that were complete before the signal; they are kept.
  using Say = std::function<void(int signal, const std::vector<std::filesystem::path>& written)>;
  explicit InterruptionHandler(Say say);
  /// Restores the previous signal actions. If a signal has arrived already, this destructor does not return, because
  /// the process ends.
  ~InterruptionHandler();
  InterruptionHandler(const InterruptionHandler&) = delete;
  InterruptionHandler& operator=(const InterruptionHandler&) = delete;

 private:
  int read_ = -1;
  std::thread thread_;
};

/// Returns a lock. The caller holds it during one change of files below an Unfinished file or directory. An
/// interruption waits until the lock is released; after an interruption no change begins. Several threads can hold such
/// locks at once. No thread may hold two of these locks.
[[nodiscard]] std::shared_lock<std::shared_mutex> hold_off_interruption();

/// A temporary file or directory that will be renamed. An interruption removes it with its content. Any thread may use
/// it. One Unfinished directory may be inside another.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path temporary);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  /// Calls `rename`, which must rename the temporary file to `target`, and returns its result: 0 or an
  /// errno. An interruption happens either before or after the call, never during it.
  int put_in_place(const std::filesystem::path& target, const std::function<int()>& rename);

 private:
  const std::filesystem::path temporary_;
};

}  // namespace millrace
