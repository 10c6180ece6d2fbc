// Runs programs under strace, to see which files they use or to make the disk slow at a chosen moment.
#pragma once

#include <string>
#include <vector>

namespace millrace::tests {

/// `command` and its children under strace; the exit code is the command's. With the option -D, strace runs
/// as a grandchild: signals reach the command, and the trace may end after it. LeakSanitizer cannot be
/// traced, so it is off.
std::vector<std::string> traced(const std::vector<std::string>& options,
                                const std::vector<std::string>& command);

/// `command`, whose processes each wait for the given time before their first fsync or syncfs. A test can
/// then interrupt them while their files are not yet in place. Signals reach the command. strace reports the
/// end of a killed program only after the delay.
std::vector<std::string> on_a_slow_disk(const std::vector<std::string>& command, int seconds = 20);

}  // namespace millrace::tests
