#include "tools/cli/serve_signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace millrace::cli {
namespace {

int signal_pipe_write = -1;  // only the signal handler writes to this pipe

}  // namespace

Signals::Signals() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
  read_ = ends[0];
  signal_pipe_write = ends[1];
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    const int saved = errno;
    const char byte = static_cast<char>(signal == SIGHUP    ? Signal::kReload
                                        : signal == SIGCONT ? Signal::kContinue
                                                            : Signal::kStop);
    [[maybe_unused]] const auto written = ::write(signal_pipe_write, &byte, 1);
    errno = saved;
  };
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &old_[i]);
}

Signals::~Signals() {
  if (read_ < 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
  ::close(read_);
  ::close(signal_pipe_write);
}

std::optional<Signal> Signals::wait(std::chrono::milliseconds bound) {
  pollfd wanted{read_, POLLIN, 0};
  int got = 0;
  do got = ::poll(&wanted, 1, static_cast<int>(bound.count()));
  while (got < 0 && errno == EINTR);
  char byte = 0;
  if (got <= 0 || ::read(read_, &byte, 1) != 1) return std::nullopt;
  return static_cast<Signal>(byte);
}

}  // namespace millrace::cli
