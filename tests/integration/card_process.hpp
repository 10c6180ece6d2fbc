// The processes of emulated cards of this process. Uses nothing but /proc.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace millrace::tests {

/// Process of the emulated card with this name ("fpga0") among this process's own children; 0 where there is
/// none.
inline pid_t card_process(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) {
      std::ifstream file("/proc/" + std::to_string(child) + "/cmdline");
      std::string program, card;
      std::getline(file, program, '\0');
      std::getline(file, card, '\0');
      if (program == "millrace-card" && card == name) return child;
    }
  }
  return 0;
}

}  // namespace millrace::tests
