// Runs programs under strace, to see which files they use or to make the disk slow at a chosen moment.
#pragma once

#include <string>
#include <vector>

namespace millrace::tests {

/// Returns a command line that runs `command` and its children under strace and has the exit code of `command`. With
/// strace's option -D, strace runs as a grandchild: signals then reach `command`, and strace may end after `command`.
/// LeakSanitizer is switched off, because it cannot work under strace.
std::vector<std::string> traced(const std::vector<std::string>& options,
                                const std::vector<std::string>& command);

/// Returns a command line that runs `command`, where each process waits `seconds` before its first fsync or syncfs. A
/// test can interrupt the process during this wait, before its files are complete. Signals reach `command`. If the
/// program is killed, strace reports its end only after the wait.
std::vector<std::string> on_a_slow_disk(const std::vector<std::string>& command, int seconds = 20);

}  // namespace millrace::tests
