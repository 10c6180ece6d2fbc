#include "tests/support/strace.hpp"

namespace millrace::tests {

std::vector<std::string> traced(const std::vector<std::string>& options,
                                const std::vector<std::string>& command) {
  std::vector<std::string> all{"env", "ASAN_OPTIONS=detect_leaks=0", "strace", "-f", "-q"};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

std::vector<std::string> on_a_slow_disk(const std::vector<std::string>& command, int seconds) {
  return traced({"-D", "-o", "/dev/null", "-e", "trace=fsync,syncfs", "-e",
                 "inject=fsync,syncfs:delay_enter=" + std::to_string(seconds) + "s:when=1"},
                command);
}

}  // namespace millrace::tests
