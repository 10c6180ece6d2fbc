// Finds the card processes that this process started. Uses only /proc and kill().
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace millrace::tests {

/// Like card_process(), but reads the list of child processes only once.
inline pid_t listed_card_process(const std::string& name) {
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

/// Returns the process id of the emulated card `name`, such as "fpga0", among this process's children, or 0 if there is
/// none. Reads the kernel's list of children twice, because the list may lack a child while another child ends.
inline pid_t card_process(const std::string& name) {
  const pid_t found = listed_card_process(name);
  return found != 0 ? found : listed_card_process(name);
}

/// Sends a signal to the card's process. Returns false if the card has no process: kill(0) would signal this
/// test's whole process group.
inline bool signal_card(const std::string& name, int signal) {
  const pid_t process = card_process(name);
  return process > 0 && ::kill(process, signal) == 0;
}

}  // namespace millrace::tests
