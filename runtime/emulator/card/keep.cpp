// `millrace-card --keep SOCKET`: the keeper of emulated cards (../keeper.hpp). It runs until SIGTERM or SIGINT. Its end
// closes the descriptors that it stores, and the cards end.
#include "runtime/emulator/card/keep.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "runtime/base/file.hpp"
#include "runtime/emulator/keeper.hpp"

namespace millrace::runtime::emulator {

namespace {

using Kind = KeeperMessage::Kind;

class Keeper {
 public:
  Keeper(int listener, int signals) : listener_(listener), signals_(signals) {
    // Cards must not hold the standard error of a host that may be gone.
    stored_["stderr"] = {fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
  }

  /// Serves hosts until a signal comes.
  void run() {
    for (;;) {
      pollfd watched[] = {{signals_, POLLIN, 0}, {listener_, POLLIN, 0}, {host_, POLLIN, 0}};
      if (poll(watched, 3, -1) < 0 && errno != EINTR) return;
      if (watched[0].revents != 0) return;
      if (watched[2].revents != 0) read_from_host();
      if (watched[1].revents != 0) accept();
    }
  }

 private:
  void accept() {
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) return welcome(socket);
    // The host still waits, so poll() returns at once. Without a pause, a keeper without free descriptors would spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

  void welcome(int socket) {
    if (host_ >= 0) {
      KeeperMessage busy;
      busy.kind = Kind::kBusy;
      ucred peer{};
      socklen_t length = sizeof peer;
      if (getsockopt(host_, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) busy.process = peer.pid;
      (void)send_message(socket, busy, {});
      close(socket);
      return;
    }
    host_ = socket;
    KeeperMessage message;
    message.kind = Kind::kPut;
    for (const auto& [name, descriptors] : stored_) {
      name.copy(message.name, sizeof message.name - 1);
      message.name[std::min(name.size(), sizeof message.name - 1)] = '\0';
      (void)send_message(host_, message, descriptors);
    }
    (void)send_message(host_, KeeperMessage{}, {});
  }

  void read_from_host() {
    KeeperMessage message;
    std::vector<int> descriptors;
    if (receive_message(host_, message, descriptors) && message.kind == Kind::kPut) {
      std::swap(stored_[message.name], descriptors);
    } else {
      close(host_);
      host_ = -1;
    }
    for (const int unused : descriptors) close(unused);
  }

  const int listener_, signals_;
  int host_ = -1;  // -1: no host is connected
  std::map<std::string, std::vector<int>> stored_;
};

/// Prints why no cards can be kept at `path`, with the remedy, and returns the exit code.
int refuse(int exit_code, const char* path, const std::string& why) {
  std::fprintf(stderr, "millrace-card: --keep '%s': %s\n", path, why.c_str());
  return exit_code;
}

/// Returns a socket that listens at the address, or -1 with errno.
int listen_at(const sockaddr_un& address) {
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const mode_t before = umask(0077);  // only this user may use the cards
  const bool bound = bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  umask(before);
  if (bound && listen(listener, 16) == 0) return listener;
  const int reason = errno;
  close(listener);
  errno = reason;
  return -1;
}

}  // namespace

int keep_cards(const char* path) {
  constexpr int kUsage = 2, kEnvironment = 3;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length == 0 || length >= sizeof address.sun_path)
    return refuse(kUsage, path,
                  "the path of the socket must have 1 to " + std::to_string(sizeof address.sun_path - 1) +
                      " characters");
  std::memcpy(address.sun_path, path, length);
  if (is_stale_socket(path, SOCK_SEQPACKET)) unlink(path);  // left behind by a keeper that was killed

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC);
  const int listener = signals < 0 ? -1 : listen_at(address);
  if (listener < 0)
    return refuse(kEnvironment, path,
                  std::string(std::strerror(errno)) +
                      "; give a path at which there is neither a file nor another keeper, "
                      "in a folder in which you may write");
  std::printf("millrace-card: keeps cards at %s\n", path);
  std::fflush(stdout);
  Keeper(listener, signals).run();
  unlink(path);
  return 0;
}

}  // namespace millrace::runtime::emulator
