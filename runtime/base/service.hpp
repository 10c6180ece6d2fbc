// The protocol between a service manager (systemd) and this process: sockets that the manager opened, and a
// datagram for each change of state. Without a manager all functions do nothing.
// https://www.freedesktop.org/software/systemd/man/ sd_listen_fds.html, sd_notify.html.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::service {

struct PassedSocket {
  std::string name;  // FileDescriptorName= of the socket unit
  int fd = -1;       // close-on-exec; the caller closes it
};

/// Returns the sockets that $LISTEN_PID, $LISTEN_FDS and $LISTEN_FDNAMES pass to this process. Removes the variables,
/// so that no child process uses the sockets; a second call returns none. Must be called before other threads exist.
std::vector<PassedSocket> take_passed_sockets();

/// Sends "READY=1", "STOPPING=1" or "STATUS=…" to $NOTIFY_SOCKET. Returns false if there is no such socket or it cannot
/// be reached. Any thread may call it.
bool notify(std::string_view state);

/// Sends "RELOADING=1" with the monotonic time that systemd requires.
bool notify_reloading();

/// Returns the longest time allowed between two "WATCHDOG=1" ($WATCHDOG_USEC), or nothing without a watchdog.
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace millrace::service
