#include "runtime/emulator/shim/kept_cards.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

namespace millrace::runtime::emulator {

namespace {

using Kind = KeeperMessage::Kind;

constexpr std::chrono::seconds kBusyBound{2}, kAnswerBound{5};

Error refused(const std::string& path, const std::string& why) {
  return Error(ErrorCode::kEnvironment, "MILLRACE_CARDS: " + path + ": " + why +
                                            "; start a keeper with 'millrace-card --keep " + path + "'");
}

/// Returns whether the process that created the listening socket belongs to this user. Any other process could pass off
/// memory of its own as a card.
bool is_own_keeper(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace

KeptCards::~KeptCards() {
  for (const auto& [name, descriptors] : stored_)
    for (const int descriptor : descriptors) close(descriptor);
  if (diagnostics_ >= 0) close(diagnostics_);
  close(socket_);
}

std::optional<KeeperMessage> KeptCards::receive_all() {
  const auto give_up_at = std::chrono::steady_clock::now() + kAnswerBound;
  KeeperMessage message;
  while (std::chrono::steady_clock::now() < give_up_at) {
    std::vector<int> descriptors;
    const bool received = receive_message(socket_, message, descriptors);
    if (received && message.kind == Kind::kPut) std::swap(stored_[message.name], descriptors);
    for (const int unused : descriptors) close(unused);
    if (!received) return std::nullopt;
    if (message.kind != Kind::kPut) return message;
  }
  return std::nullopt;
}

Result<std::unique_ptr<KeptCards>> KeptCards::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error(ErrorCode::kInvalidInput, "MILLRACE_CARDS: the path of the socket has more than " +
                                               std::to_string(sizeof address.sun_path - 1) +
                                               " characters; give millrace-card --keep a shorter path");
  path.copy(address.sun_path, path.size());
  const auto give_up_at = std::chrono::steady_clock::now() + kBusyBound;
  for (;;) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket < 0) return refused(path, std::strerror(errno));
    // A keeper that hangs must not block this process for ever.
    const timeval bound{kAnswerBound.count(), 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    std::unique_ptr<KeptCards> cards(new KeptCards(path, socket));
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      return refused(path, std::strerror(errno));
    if (!is_own_keeper(socket)) return refused(path, "the keeper belongs to another user");
    const auto answer = cards->receive_all();
    if (answer && answer->kind == Kind::kEnd) {
      const auto diagnostics = cards->take("stderr");
      if (diagnostics.size() == 1) cards->diagnostics_ = diagnostics[0];
      return cards;
    }
    if (!answer || answer->kind != Kind::kBusy) return refused(path, "the keeper does not answer");
    if (std::chrono::steady_clock::now() > give_up_at)
      return Error(ErrorCode::kResourceExhausted,
                   "MILLRACE_CARDS: process " + std::to_string(answer->process) + " uses the cards of " +
                       path + "; end that process first");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<int> KeptCards::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto entry = stored_.extract(name);
  return entry.empty() ? std::vector<int>() : std::move(entry.mapped());
}

void KeptCards::put(const std::string& name, const std::vector<int>& descriptors) {
  KeeperMessage message;
  message.kind = Kind::kPut;
  name.copy(message.name, sizeof message.name - 1);
  const std::lock_guard lock(mutex_);
  if (send_message(socket_, message, descriptors) || std::exchange(gone_, true)) return;
  std::fprintf(stderr,
               "millrace: millrace-card --keep at %s has ended, so the emulated cards end with this server; "
               "start millrace-card --keep before the next server\n",
               path_.c_str());
}

}  // namespace millrace::runtime::emulator
