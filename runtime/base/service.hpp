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

/// The sockets that $LISTEN_PID, $LISTEN_FDS and $LISTEN_FDNAMES pass to this process. Removes the variables,
/// so that no child takes the sockets for its own; a second call returns none. Call it before other threads
/// exist.
std::vector<PassedSocket> take_passed_sockets();

/// Sends "READY=1", "STOPPING=1" or "STATUS=…" to $NOTIFY_SOCKET. False if there is no such socket, or if it
/// cannot be reached. Any thread.
bool notify(std::string_view state);

/// Sends "RELOADING=1" with the time that systemd requires.
bool notify_reloading();

/// The longest interval between two "WATCHDOG=1" ($WATCHDOG_USEC), if a watchdog supervises this process.
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace millrace::service
