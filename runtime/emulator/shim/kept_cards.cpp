#include "runtime/emulator/shim/kept_cards.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "runtime/emulator/keeper.hpp"

namespace millrace::runtime::emulator {

namespace {

using Kind = KeeperMessage::Kind;

constexpr std::chrono::seconds kBusyBound{2}, kAnswerBound{5};

Error refused(const std::string& path, const std::string& why) {
  return Error(ErrorCode::kEnvironment, "MILLRACE_CARDS: " + path + ": " + why +
                                            "; start a keeper with 'millrace-card --keep " + path + "'");
}

}  // namespace

Result<std::unique_ptr<KeptCards>> KeptCards::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return refused(path, "the path is too long for a socket");
  path.copy(address.sun_path, path.size());
  const auto give_up_at = std::chrono::steady_clock::now() + kBusyBound;
  for (;;) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket < 0) return refused(path, std::strerror(errno));
    // A keeper that hangs must not block this process for ever.
    const timeval bound{kAnswerBound.count(), 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    std::unique_ptr<KeptCards> cards(new KeptCards(socket));
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      const std::string why = std::strerror(errno);
      close(socket);
      return refused(path, why);
    }
    KeeperMessage message;
    std::vector<int> descriptors;
    bool answered = false;
    while ((answered = receive_message(socket, message, descriptors)) && message.kind == Kind::kPut)
      cards->stored_[message.name] = std::exchange(descriptors, {});
    if (answered && message.kind == Kind::kEnd) {
      const auto diagnostics = cards->take("stderr");
      if (diagnostics.size() == 1) cards->diagnostics_ = diagnostics[0];
      return cards;
    }
    close(socket);
    if (!answered || message.kind != Kind::kBusy) return refused(path, "the keeper does not answer");
    if (std::chrono::steady_clock::now() > give_up_at)
      return Error(ErrorCode::kResourceExhausted,
                   "MILLRACE_CARDS: process " + std::to_string(message.process) + " uses the cards of " +
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
  (void)send_message(socket_, message, descriptors);
}

}  // namespace millrace::runtime::emulator
