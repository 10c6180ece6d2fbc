// What a service manager (systemd) and a process say to each other: sockets that were opened for us, and a
// datagram for each change of state. Nothing of it without one.
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
  int fd = -1;       // close-on-exec; whoever takes it closes it
};

/// The sockets meant for this process, as $LISTEN_PID, $LISTEN_FDS and $LISTEN_FDNAMES say; the variables are
/// removed, so that no child takes them for its own, and a second call gives nothing. Before other threads
/// exist.
std::vector<PassedSocket> take_passed_sockets();

/// Sends "READY=1", "STOPPING=1", "STATUS=…" to $NOTIFY_SOCKET. False where there is none, or it cannot be
/// reached. Any thread.
bool notify(std::string_view state);

/// "RELOADING=1" with the clock systemd wants beside it.
bool notify_reloading();

/// How often a watchdog wants "WATCHDOG=1" at least ($WATCHDOG_USEC, where meant for this process).
std::optional<std::chrono::microseconds> watchdog_interval();

}  // namespace millrace::service
