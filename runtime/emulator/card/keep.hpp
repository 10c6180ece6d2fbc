#pragma once

namespace millrace::runtime::emulator {

/// Keeps emulated cards for the hosts that connect to the Unix socket `path`, until SIGTERM or SIGINT. Returns the exit code
/// of the process. Removes the socket when it ends.
int keep_cards(const char* path);

}  // namespace millrace::runtime::emulator
