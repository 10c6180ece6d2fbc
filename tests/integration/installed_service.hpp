// `millrace serve` from an installed prefix, started as its systemd units say. The test acts as systemd: it
// reads the installed millrace.service and millrace.socket and follows them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/installed_prefix.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/steady_clients.hpp"

namespace millrace::tests {

class InstalledService {
 public:
  using Words = std::vector<std::string>;

  /// `folder` stands for /etc/millrace. The settings begin as those of the installed server.yaml.
  InstalledService(const InstalledPrefix& prefix, std::filesystem::path folder);

  /// Replaces `line` of server.yaml, given without its indentation, by `by`. Throws if the file has no such
  /// line.
  void set(const std::string& line, const std::string& by);
  /// Acts as `systemctl enable --now millrace.socket`, with a free port.
  void keep_socket();
  std::uint16_t kept_port() const { return socket_->port(); }

  /// Acts as `systemctl start`. `wrap` may change the command, for example to run under strace. Throws if the
  /// server does not come up.
  void start(const std::function<Words(const Words&)>& wrap = {});
  /// `systemctl reload`.
  void reload() const;
  /// Acts as `systemctl stop` and returns the exit code.
  int stop() { return server_->stop(SIGTERM); }
  /// A start that is expected to fail.
  Outcome start_to_the_end() const { return run_program(command_with({})); }
  /// The unit's command with --check-config.
  Outcome check_config() const { return run_program(command_with({"--check-config"})); }

  /// The address of the running server for `kind`, https or udp. For http see url().
  std::string address(const std::string& kind);
  std::string url() const { return "http://" + http_; }

  /// Succeeds if the log of the current or last server has such a line now or soon. The failure message shows
  /// the log.
  testing::AssertionResult logged(const std::string& level, const std::string& text) const;
  /// The lines of the log with a level above info.
  std::vector<std::string> complaints() const;
  std::string log() const { return server_->err(); }

  /// The value of a series of /metrics, requested with `token` if it is not empty; nullopt if there is no
  /// such series.
  std::optional<double> metric(const std::string& name, const std::string& labels = {},
                               const std::string& token = {}) const;
  bool metric_becomes(double value, const std::string& name, const std::string& labels = {},
                      const std::string& token = {}) const;

 private:
  /// The values of a key in a unit.
  std::vector<std::string> in_unit(const std::string& unit, const std::string& key) const;
  Words command_with(const Words& more) const;

  const InstalledPrefix& prefix_;
  const std::filesystem::path folder_;
  std::unique_ptr<KeptSocket> socket_;
  std::unique_ptr<BackgroundProgram> server_;
  std::string http_;
};

}  // namespace millrace::tests
