#include "compiler/generators/plugin_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/base/text.hpp"

namespace millrace::compiler::generators {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kErrorBytes = 1000;  // the most that is kept of its standard error

class Descriptor {
 public:
  Descriptor() = default;
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void set(int fd) { fd_ = fd; }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

/// Both ends of a connection to the program. Its input is a socket, because a write to a socket can be told
/// not to raise SIGPIPE.
struct Ends {
  Descriptor ours, its;
  bool open(bool input) {
    std::array<int, 2> fds{-1, -1};
    const int failed = input ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data())
                             : ::pipe2(fds.data(), O_CLOEXEC);
    if (failed != 0) return false;
    ours.set(fds[0]);
    its.set(fds[1]);
    return ::fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0;
  }
};

/// Runs in the forked process. guard() starts the program as a child, ends with the same status, and kills
/// the whole group if our process dies. Between fork and exec only functions that are safe in signal handlers
/// are called.
class Start {
 public:
  Start(const std::string& program, const Ends& in, const Ends& out, const Ends& err, int failure)
      : program_(program.c_str()), fds_{in.its.get(), out.its.get(), err.its.get()}, failure_(failure) {}

  [[noreturn]] void guard(pid_t parent) const {
    ::setpgid(0, 0);
    ::signal(SIGTERM, [](int) { ::kill(0, SIGKILL); });
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    unblock_signals();
    if (::getppid() != parent) ::_exit(kNever);  // the parent ended before prctl()
    const pid_t child = ::fork();
    if (child == 0) become();
    if (child < 0) fail(errno);
    ::syscall(SYS_close_range, 0U, ~0U, 0U);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
    ::signal(WTERMSIG(status), SIG_DFL);
    ::raise(WTERMSIG(status));
    ::_exit(kNever);
  }

 private:
  static constexpr int kNever = 127;

  static void unblock_signals() {
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }
  [[noreturn]] void become() const {
    for (const int number : {SIGPIPE, SIGXFSZ, SIGTERM}) ::signal(number, SIG_DFL);
    // Move ours above 2 first: if 0 to 2 were closed in this process, ours may have these numbers.
    std::array<int, 3> high{};
    for (std::size_t i = 0; i < 3; ++i) high[i] = ::fcntl(fds_[i], F_DUPFD, 3);
    for (std::size_t i = 0; i < 3; ++i)
      if (high[i] < 0 || ::dup2(high[i], static_cast<int>(i)) < 0) fail(errno);
    ::syscall(SYS_close_range, 3U, ~0U, 4U);  // CLOSE_RANGE_CLOEXEC, so that `failure_` survives until exec
    const std::array<char*, 2> arguments{const_cast<char*>(program_), nullptr};
    ::execv(program_, arguments.data());
    fail(errno);
  }
  [[noreturn]] void fail(int code) const {
    [[maybe_unused]] const auto written = ::write(failure_, &code, sizeof code);
    ::_exit(kNever);
  }

  const char* program_;
  std::array<int, 3> fds_;
  int failure_;
};

/// A process group that ends with this object, and with this process.
class Group {
 public:
  ~Group() { end(); }
  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Returns 0 or an errno.
  int start(const std::string& program, const Ends& in, const Ends& out, const Ends& err) {
    Ends failure;
    if (!failure.open(false)) return errno;
    const int told = ::fcntl(failure.its.get(), F_DUPFD_CLOEXEC, 3);
    if (told < 0) return errno;
    failure.its.close();
    failure.its.set(told);
    const Start how(program, in, out, err, told);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) how.guard(parent);
    if (pid_ < 0) return errno;
    ::setpgid(pid_, pid_);  // parent and child both call it, because either may come first
    failure.its.close();
    int code = 0;
    pollfd readable{failure.ours.get(), POLLIN, 0};
    while (::poll(&readable, 1, -1) < 0 && errno == EINTR) {
    }
    if (::read(failure.ours.get(), &code, sizeof code) != sizeof code) return 0;  // closed by exec
    end();
    return code;
  }

  /// Whether the program has ended. Processes that it started may still run.
  bool ended() {
    if (pid_ < 0 || ended_) return true;
    siginfo_t info{};
    // It is not reaped yet, because its number still names the group.
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return true;
    ended_ = info.si_pid == pid_;
    return ended_;
  }

  /// Kills the group and returns the program's status.
  int end() {
    if (pid_ < 0) return status_;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

class Exchange {
 public:
  Exchange(const std::string& question, const ProcessLimits& limits)
      : question_(question), limits_(limits), deadline_(Clock::now() + limits.time) {}

  Result<std::string> run(const std::filesystem::path& program) {
    if (!in_.open(true) || !out_.open(false) || !err_.open(false))
      return Error(ErrorCode::kResourceExhausted, std::string("no pipe: ") + std::strerror(errno));
    if (const int failed = group_.start(program.string(), in_, out_, err_); failed != 0)
      return Error(ErrorCode::kInvalidInput, std::string("it cannot be started: ") + std::strerror(failed));
    for (Ends* ends : {&in_, &out_, &err_}) ends->its.close();
    while (out_.ours.is_open() || err_.ours.is_open()) {
      // A grandchild can inherit the pipes and keep them open. Wait for the program itself to exit, then
      // drain them.
      const bool over = group_.ended();
      MILLRACE_TRY(exchange());
      if (over && !waiting_) break;
    }
    while (!group_.ended()) {
      if (Clock::now() >= deadline_) return late();
      ::poll(nullptr, 0, 2);
    }
    return judged(group_.end());
  }

 private:
  Error late() const {
    return said("it did not end within " + std::to_string(limits_.time.count()) + " ms and was killed");
  }

  Error said(const std::string& what) const {
    return Error(ErrorCode::kInvalidInput, what + (error_.empty() ? "" : "; it said: " + printable(error_)));
  }

  Result<std::string> judged(int status) {
    if (WIFSIGNALED(status)) return said("it was ended by signal " + std::to_string(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0) return said("it ended with code " + std::to_string(WEXITSTATUS(status)));
    return std::move(answer_);
  }

  /// Sends and receives whatever is possible now, or waits a little. Clears waiting_ if nothing was received.
  Status exchange() {
    constexpr std::int64_t kTurnMs = 20;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) return late();
    std::array<pollfd, 3> fds{
        {{in_.ours.get(), POLLOUT, 0}, {out_.ours.get(), POLLIN, 0}, {err_.ours.get(), POLLIN, 0}}};
    if (sent_ == question_.size()) in_.ours.close();
    if (!in_.ours.is_open()) fds[0].fd = -1;
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(std::min(left, kTurnMs)));
    waiting_ = false;
    if (ready < 0 && errno != EINTR)
      return Error(ErrorCode::kInternal, std::string("poll: ") + std::strerror(errno));
    if (ready <= 0) return {};
    if (fds[0].fd >= 0 && fds[0].revents != 0) send();
    if (fds[1].fd >= 0 && fds[1].revents != 0) {
      MILLRACE_TRY(receive(out_.ours, answer_));
      if (answer_.size() > limits_.answer_bytes)
        return said("its answer is longer than " + std::to_string(limits_.answer_bytes) + " bytes");
    }
    if (fds[2].fd >= 0 && fds[2].revents != 0) {
      MILLRACE_TRY(receive(err_.ours, error_));
      if (error_.size() > kErrorBytes) error_.erase(0, error_.size() - kErrorBytes);
    }
    return {};
  }

  void send() {
    const ssize_t n =
        ::send(in_.ours.get(), question_.data() + sent_, question_.size() - sent_, MSG_NOSIGNAL);
    if (n > 0)
      sent_ += static_cast<std::size_t>(n);
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
      in_.ours.close();  // it stopped reading; its answer shows whether it had enough
  }

  Status receive(Descriptor& from, std::string& into) {
    std::array<char, 65536> part;
    const ssize_t n = ::read(from.get(), part.data(), part.size());
    if (n > 0) {
      into.append(part.data(), static_cast<std::size_t>(n));
      waiting_ = true;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
      from.close();
    }
    return {};
  }

  const std::string& question_;
  const ProcessLimits& limits_;
  Clock::time_point deadline_;
  Ends in_, out_, err_;
  std::size_t sent_ = 0;
  bool waiting_ = false;  // the last turn read something, so there may be more
  std::string answer_, error_;
  Group group_;
};

}  // namespace

Result<std::string> ask_program(const std::filesystem::path& program, const std::string& question,
                                const ProcessLimits& limits) {
  return Exchange(question, limits).run(program);
}

}  // namespace millrace::compiler::generators
