// Programs under strace: what they do with files, and a disk that is slow at the moment that a test wants.
#pragma once

#include <string>
#include <vector>

namespace millrace::tests {

/// `command` and its children under strace, whose exit code is the command's. With the option -D strace goes
/// on as a grandchild: signals reach the command, and the trace may end after it. LeakSanitizer cannot be
/// traced and is off.
std::vector<std::string> traced(const std::vector<std::string>& options,
                                const std::vector<std::string>& command);

/// `command`, of which each process waits for so long before its first fsync or syncfs: a test can interrupt
/// it while what it wrote is not yet in place. Signals reach the command. strace reports the end of a killed
/// program after the delay.
std::vector<std::string> on_a_slow_disk(const std::vector<std::string>& command, int seconds = 20);

}  // namespace millrace::tests
