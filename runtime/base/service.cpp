#include "runtime/base/service.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace millrace::service {
namespace {

constexpr int kFirstPassed = 3;  // SD_LISTEN_FDS_START
constexpr int kMostPassed = 1'024;

std::optional<std::uint64_t> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, code] = std::from_chars(text, end, value);
  if (code != std::errc() || stop != end || stop == text) return std::nullopt;
  return value;
}

}  // namespace

std::vector<PassedSocket> take_passed_sockets() {
  std::vector<PassedSocket> out;
  const auto pid = number_in("LISTEN_PID"), count = number_in("LISTEN_FDS");
  const char* names_text = std::getenv("LISTEN_FDNAMES");
  std::string names = names_text == nullptr ? "" : names_text;
  for (const char* variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);
  if (!pid || !count || *pid != static_cast<std::uint64_t>(::getpid()) || *count > kMostPassed) return out;
  for (int i = 0; i < static_cast<int>(*count); ++i) {
    const int fd = kFirstPassed + i;
    const auto colon = names.find(':');
    std::string name = names.substr(0, colon);
    names = colon == std::string::npos ? "" : names.substr(colon + 1);
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;  // no descriptor was passed under this number
    out.push_back({name.empty() ? "unknown" : std::move(name), fd});
  }
  return out;
}

bool notify(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return false;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof to.sun_path) return false;
  std::memcpy(to.sun_path, path, length);
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';  // '@' means a socket in the abstract namespace
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const auto sent =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size);
  ::close(fd);
  return sent == static_cast<ssize_t>(state.size());
}

bool notify_reloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto microseconds =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000U + static_cast<std::uint64_t>(now.tv_nsec) / 1'000U;
  return notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds));
}

std::optional<std::chrono::microseconds> watchdog_interval() {
  const auto interval = number_in("WATCHDOG_USEC"), pid = number_in("WATCHDOG_PID");
  if (!interval || *interval == 0 || *interval > 86'400'000'000) return std::nullopt;
  if (pid && *pid != static_cast<std::uint64_t>(::getpid())) return std::nullopt;
  return std::chrono::microseconds(*interval);
}

}  // namespace millrace::service
