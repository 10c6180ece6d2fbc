// Starts a card's process, ends it, and handles its unexpected end.
#include <ert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

#include "runtime/emulator/shim/emulated_card.hpp"

extern char** environ;

namespace millrace::runtime::emulator {

int EmulatedCard::spawn(int liveness) {
  const char* program = std::getenv("MILLRACE_CARD");
  if (program == nullptr) return -ENOENT;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // The card gets its own process group, because after Ctrl-C the host still needs the card to complete its work.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  // The card inherits descriptors under fixed numbers. All are first duplicated to higher numbers, so that no
  // descriptor is overwritten before it is copied.
  std::vector<int> copies;
  const auto give = [&](int descriptor, int as) {
    constexpr int kAboveAllTargets = 100;
    copies.push_back(fcntl(descriptor, F_DUPFD_CLOEXEC, kAboveAllTargets));
    return copies.back() >= 0 && posix_spawn_file_actions_adddup2(&actions, copies.back(), as) == 0;
  };
  pid_t process = -1;
  int error = ENOMEM;
  // The card inherits stderr, but no terminal for input, and no pipe whose end another process waits for.
  if (posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
      give(control_memory_.descriptor(), kControlFd) && give(memory_.descriptor(), kMemoryFd) &&
      give(fabric_.descriptor(), kFabricFd) && give(image_memory_.descriptor(), kImageFd) &&
      give(liveness, kLivenessFd) &&
      (keeper_ == nullptr || keeper_->diagnostics() < 0 || give(keeper_->diagnostics(), STDERR_FILENO))) {
    std::string name = "millrace-card", card = card_.name;
    char* arguments[] = {name.data(), card.data(), nullptr};
    error = posix_spawn(&process, program, &actions, &attributes, arguments, environ);
  }
  for (const int copy : copies)
    if (copy >= 0) ::close(copy);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error != 0 ? -error : process;
}

Status EmulatedCard::start() {
  const std::lock_guard call_lock(call_mutex_);
  const std::lock_guard lock(submit_mutex_);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Error(ErrorCode::kResourceExhausted,
                 std::string("cannot start the card process: ") + std::strerror(errno));

  auto& c = control();
  c.magic = kProtocolMagic;
  c.card = index_;
  c.submitted.store(0);
  c.taken.store(0);
  c.call.asked.store(0);
  c.call.answered.store(0);
  leave_service();
  fabric().doorbell[index_].sleeping.store(0);
  fabric().doorbell[index_].alive.store(1);

  const int process = spawn(ends[1]);
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    leave_service();
    const char* program = std::getenv("MILLRACE_CARD");
    return Error(ErrorCode::kEnvironment, std::string("cannot start the card process (MILLRACE_CARD=") +
                                              (program == nullptr ? "" : program) +
                                              "): " + std::strerror(-process));
  }
  liveness_ = ends[0];
  process_ = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  alive_.store(true, std::memory_order_release);
  if (process_ >= 0 && watch()) {
    if (keeper_ != nullptr) keeper_->put("process" + std::to_string(index_), {liveness_, process_});
    return {};
  }

  // A card whose process is not watched must not be used. Closing the host's end of the socket ends that process.
  alive_.store(false);
  if (process_ >= 0) ::close(process_);
  ::close(liveness_);
  process_ = liveness_ = -1;
  leave_service();
  return Error(ErrorCode::kResourceExhausted,
               std::string("cannot watch the card process: ") + std::strerror(errno));
}

/// Marks this card's ends of cables as disabled until its links are enabled again.
void EmulatedCard::leave_service() {
  auto& f = fabric();
  f.doorbell[index_].alive.store(0);
  f.doorbell[index_].cables_up_at.store(0);
  for (std::size_t i = 0; i < cables_.size(); ++i) {
    const Topology::End ends[2] = {cables_[i].a, cables_[i].b};
    for (std::size_t end = 0; end < 2; ++end) {
      if (ends[end].card != index_) continue;
      for (auto& r : f.rings[i][end]) r.sender.in_service.store(0);
      for (auto& r : f.rings[i][1 - end]) r.receiver.in_service.store(0);
      ring(f.doorbell[ends[1 - end].card]);
    }
  }
}

/// Starts a thread that notices immediately when the process ends. Returns false if no thread can be created.
bool EmulatedCard::watch() {
  // Block all signals, because the program's signal handlers must not run on this watching thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread([this, process = process_] {
      pollfd end{process, POLLIN, 0};
      while (poll(&end, 1, -1) < 0) {
      }
      // Call ended() before waitid() removes the process. Otherwise a thread that sees that the process is gone, and
      // reloads its card, could find the card marked as alive.
      ended();
      siginfo_t info{};
      (void)waitid(P_PIDFD, static_cast<id_t>(process), &info, WEXITED);
      ::close(process);
    }).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

/// Marks the card as dead. Called on the watching thread when the process has ended.
void EmulatedCard::ended() {
  const std::lock_guard lock(submit_mutex_);
  if (hardware_ && !ends_by_reset_) set_condition(Condition::kLost);
  alive_.store(false, std::memory_order_release);
  ::close(liveness_);
  process_ = liveness_ = -1;
  // The registers of a lost card read all ones, and XRT's driver takes that for the end of the run.
  end_runs(ends_by_reset_ ? ERT_CMD_STATE_ABORT : hardware_ ? ERT_CMD_STATE_COMPLETED : ERT_CMD_STATE_ERROR);
  leave_service();
  auto& c = control();
  c.call.answered.store(kCardGone, std::memory_order_release);
  futex_wake(c.call.answered, INT_MAX);
}

void EmulatedCard::kill() {
  const std::lock_guard lock(submit_mutex_);
  if (process_ >= 0) syscall(SYS_pidfd_send_signal, process_, SIGKILL, nullptr, 0);
}

/// Waits until the process has ended. Returns false after two seconds: the process then hangs in the kernel.
bool EmulatedCard::await_end() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  auto& answered = control().call.answered;
  while (alive()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    const timespec slice{0, 50'000'000};
    const auto value = answered.load(std::memory_order_acquire);
    if (value != kCardGone) futex_wait(answered, value, &slice);
  }
  return true;
}

}  // namespace millrace::runtime::emulator
