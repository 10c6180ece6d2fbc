#include "runtime/base/interruption.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <system_error>

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
constexpr char kEnd = 0;  // a byte in the pipe that ends the thread; no signal has this number

int pipe_write = -1;  // the end of the pipe to which the signal handler writes
std::array<struct sigaction, kSignals.size()> old_actions;

struct State {
  // Each change of files locks this mutex in shared mode. After a signal, one thread locks it exclusively for good.
  std::shared_mutex changes;
  std::mutex mutex;  // protects the members below
  std::vector<fs::path> unfinished;
  std::vector<fs::path> written;
  bool handled = false;  // whether a handler exists: without one, `written` would grow without limit
};

/// The state is never destroyed, because threads may still write files while the process ends.
State& state() {
  static State& made = *new State;
  return made;
}

void on_signal(int number) {
  const int saved = errno;
  const char byte = static_cast<char>(number);
  [[maybe_unused]] const auto sent = ::write(pipe_write, &byte, 1);
  errno = saved;
}

[[noreturn]] void end_by(int number, const InterruptionHandler::Say& say) {
  State& shared = state();
  const std::unique_lock stopped(shared.changes);
  std::vector<fs::path> unfinished, written;
  {
    const std::lock_guard lock(shared.mutex);
    unfinished = shared.unfinished;
    written = shared.written;
  }
  std::error_code ignored;
  for (const fs::path& path : unfinished) fs::remove_all(path, ignored);
  say(number, written);
  ::signal(number, SIG_DFL);
  ::kill(::getpid(), number);
  while (true) ::pause();
}

void wait_for_signal(int from, const InterruptionHandler::Say& say) {
  char byte = kEnd;
  while (::read(from, &byte, 1) < 0 && errno == EINTR) {
  }
  ::close(from);
  if (byte != kEnd) end_by(byte, say);
}

}  // namespace

InterruptionHandler::InterruptionHandler(Say say) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;  // without the pipe, the signals end the process as usual
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  read_ = ends[0];
  pipe_write = ends[1];
  thread_ = std::thread([from = read_, say = std::move(say)] { wait_for_signal(from, say); });
  {
    const std::lock_guard lock(state().mutex);
    state().handled = true;
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &old_actions[i]);
    if (old_actions[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptionHandler::~InterruptionHandler() {
  if (read_ < 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_actions[i], nullptr);
  [[maybe_unused]] const auto sent = ::write(pipe_write, &kEnd, 1);
  thread_.join();  // after a signal, this waits until the thread has ended the process
  ::close(pipe_write);
}

std::shared_lock<std::shared_mutex> hold_off_interruption() {
  return std::shared_lock(state().changes);
}

Unfinished::Unfinished(fs::path temporary) : temporary_(std::move(temporary)) {
  const std::lock_guard lock(state().mutex);
  state().unfinished.push_back(temporary_);
}

Unfinished::~Unfinished() {
  const std::lock_guard lock(state().mutex);
  std::erase(state().unfinished, temporary_);
}

int Unfinished::put_in_place(const fs::path& target, const std::function<int()>& rename) {
  const auto held = hold_off_interruption();
  if (const int code = rename(); code != 0) return code;
  const std::lock_guard lock(state().mutex);
  if (!state().handled) return 0;
  // If `target` is inside another unfinished directory, it is not yet in its final location.
  const auto holds = [&](const fs::path& outer) {
    return outer != temporary_ &&
           std::mismatch(outer.begin(), outer.end(), target.begin(), target.end()).first == outer.end();
  };
  if (std::none_of(state().unfinished.begin(), state().unfinished.end(), holds))
    state().written.push_back(target);
  return 0;
}

}  // namespace millrace
