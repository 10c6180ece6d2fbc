// Ctrl-C, SIGTERM and SIGHUP: what a command has begun to write is removed before the process ends.
//
// The functions of file.hpp register their temporaries here. In a program that makes no InterruptionHandler
// that costs next to nothing, and the signals keep the meaning they have.
#pragma once

#include <filesystem>
#include <functional>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace millrace {

/// Takes over SIGINT, SIGTERM and SIGHUP, each unless the process was started with it ignored (nohup). On the
/// first one a thread of its own removes everything Unfinished, calls `say` and ends the process by that same
/// signal, so that a shell sees exit code 130, 143 or 129. One object in a process; made and destroyed by the
/// thread that runs the command.
class InterruptionHandler {
 public:
  /// `written`: the files and directories that had been put in place before the signal came, and stay.
  using Say = std::function<void(int signal, const std::vector<std::filesystem::path>& written)>;
  explicit InterruptionHandler(Say say);
  /// Gives the signals back. Does not return once a signal has come: the process ends.
  ~InterruptionHandler();
  InterruptionHandler(const InterruptionHandler&) = delete;
  InterruptionHandler& operator=(const InterruptionHandler&) = delete;

 private:
  int read_ = -1;
  std::thread thread_;
};

/// Held by whoever changes files below something Unfinished, for one change: it waits while one is held, and
/// none begins after it. Shared: holders do not wait for each other. Not to be taken twice by a thread.
[[nodiscard]] std::shared_lock<std::shared_mutex> hold_off_interruption();

/// A temporary file or directory on its way to its place: an interruption removes it with all it holds. Any
/// thread; they may be nested, one being written inside another.
class Unfinished {
 public:
  explicit Unfinished(std::filesystem::path temporary);
  ~Unfinished();
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  /// Runs `rename`, which puts the temporary in the place `target` and returns 0 or an errno, which this
  /// returns. An interruption sees it done or not begun.
  int put_in_place(const std::filesystem::path& target, const std::function<int()>& rename);

 private:
  const std::filesystem::path temporary_;
};

}  // namespace millrace
