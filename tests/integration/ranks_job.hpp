// A job of `millrace serve` processes that mpirun starts on this machine, one for each host of the cluster
// three-hosts-ku060.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/http.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

/// Whether mpirun is on the path. Tests of jobs are skipped without it.
bool has_mpirun();

/// Returns the beginning of a mpirun command that uses only this machine, the loopback device and shared memory.
std::vector<std::string> mpirun_command();

/// Digits with their golden outputs.
struct Digits {
  std::vector<std::string> inputs, outputs;
};
Digits read_digits();

class RanksJob {
 public:
  static constexpr int kRanks = 3;

  /// Starts three ranks as the hosts host0, host1 and host2. `more` is added to each rank's arguments.
  explicit RanksJob(const std::vector<std::string>& more);
  /// Stops the job, if it still runs, so that no rank stays behind.
  ~RanksJob();

  /// Waits until rank 0 listens. Returns false if the job ends before.
  bool wait_until_ready();
  std::uint16_t port() const { return port_; }

  /// Returns the process of a rank, or -1.
  pid_t rank(int number) const;
  /// Returns the processes of the emulated cards of all ranks.
  std::vector<pid_t> cards() const;
  BackgroundProgram& mpirun() { return *program_; }

  /// Sends one inference request whose body is only the tensor (raw mode), and returns the HTTP status. Returns -1 if
  /// the status is 200 but a byte is wrong, and 0 if there was no answer.
  static int ask(HttpConnection& connection, const Digits& digits, std::size_t frame);

 private:
  std::unique_ptr<BackgroundProgram> program_;
  std::uint16_t port_ = 0;
};

}  // namespace millrace::tests
