#include "runtime/emulator/shim/monitor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <thread>

namespace millrace::runtime::emulator {

bool Monitor::start() {
  if (wake_ >= 0) return true;
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return false;
  // The program's signal handlers must run on its own threads, not on this one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error&) {
    started = false;
    close(wake_);
    wake_ = -1;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

bool Monitor::watch(int process, std::function<void()> ended) {
  const std::lock_guard lock(mutex_);
  if (!start()) return false;
  arrived_.push_back({process, std::move(ended)});
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
  return true;
}

void Monitor::run() {
  std::vector<Watched> watched;
  std::vector<pollfd> polled;
  for (;;) {
    polled.assign(1, pollfd{wake_, POLLIN, 0});
    for (const auto& w : watched) polled.push_back({w.process, POLLIN, 0});
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    for (std::size_t i = watched.size(); i-- > 0;) {
      if (polled[i + 1].revents == 0) continue;
      const Watched gone = std::move(watched[i]);
      watched.erase(watched.begin() + static_cast<std::ptrdiff_t>(i));
      // Call this before the process is reaped: a thread that sees the process gone and reloads its card must
      // not find the card marked as alive.
      gone.ended();
      siginfo_t info{};
      (void)waitid(P_PIDFD, static_cast<id_t>(gone.process), &info, WEXITED);
      close(gone.process);
    }
    std::uint64_t count;
    (void)!read(wake_, &count, sizeof count);
    const std::lock_guard lock(mutex_);
    for (auto& w : arrived_) watched.push_back(std::move(w));
    arrived_.clear();
  }
}

}  // namespace millrace::runtime::emulator
