// A private Slurm of one node on this machine: munged, slurmctld and slurmd in the foreground, on the loopback device,
// with all their files in a temporary directory.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

class PrivateSlurm {
 public:
  /// Whether the distribution's Slurm is installed and this process may start it (as root).
  static bool is_possible();

  PrivateSlurm();

  /// Waits until the node accepts jobs. Returns false after `limit`.
  bool wait_until_idle(std::chrono::seconds limit = std::chrono::seconds(60));

  /// The environment in which Slurm's commands find this Slurm.
  std::vector<std::string> environment() const { return {"SLURM_CONF=" + configuration().string()}; }
  std::filesystem::path configuration() const { return folder_.path() / "slurm.conf"; }

  /// Returns what the daemons printed, for messages of failed tests.
  std::string log() const;

 private:
  TemporaryDirectory folder_{"millrace-slurm"};
  std::unique_ptr<BackgroundProgram> munged_, controller_, daemon_;  // ended in the opposite order
};

/// Returns a TCP port of the loopback device that was free a moment ago.
std::uint16_t free_port();

}  // namespace millrace::tests
