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
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

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
      if (watched[1].revents != 0) welcome(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
    }
  }

 private:
  void welcome(int socket) {
    if (socket < 0) return;
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

int refuse(const char* what, const char* path) {
  std::fprintf(stderr, "millrace-card: cannot keep cards at '%s': %s: %s\n", path, what,
               std::strerror(errno));
  return 70;
}

}  // namespace

int keep_cards(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) {
    std::fprintf(
        stderr,
        "millrace-card: --keep: the path of the socket has more than %zu characters; give a shorter one\n",
        sizeof address.sun_path - 1);
    return 2;
  }
  std::strcpy(address.sun_path, path);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
  // A socket whose keeper was killed stays in the file system. Remove it, but not that of a keeper that runs.
  const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const bool in_use = connect(probe, generic, sizeof address) == 0;
  const bool stale = !in_use && errno == ECONNREFUSED;
  close(probe);
  if (in_use) {
    std::fprintf(stderr,
                 "millrace-card: --keep: another keeper serves '%s'; give another path, or end that keeper\n",
                 path);
    return 70;
  }
  if (stale) unlink(path);

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const int signals = signalfd(-1, &ends, SFD_CLOEXEC);
  if (signals < 0) return refuse("signalfd", path);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const mode_t before = umask(0077);  // only this user may use the cards
  const bool bound = listener >= 0 && bind(listener, generic, sizeof address) == 0;
  umask(before);
  if (!bound || listen(listener, 16) != 0) return refuse("bind", path);
  std::printf("millrace-card: keeps cards at %s\n", path);
  std::fflush(stdout);
  Keeper(listener, signals).run();
  unlink(path);
  return 0;
}

}  // namespace millrace::runtime::emulator
