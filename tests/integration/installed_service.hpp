// Starts `millrace serve` from an installed prefix in the way that its systemd units describe. The test acts
// as systemd: it reads the installed millrace.service and millrace.socket and does what they say.
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

  /// Uses `folder` in place of /etc/millrace. At first, the settings are those of the installed server.yaml.
  InstalledService(const InstalledPrefix& prefix, std::filesystem::path folder);

  /// Replaces a line of server.yaml by `by`. `line` is the old line without its indentation. Throws if the
  /// file has no such line.
  void set(const std::string& line, const std::string& by);
  /// Acts as `systemctl enable --now millrace.socket`, with a free port.
  void keep_socket();
  std::uint16_t kept_port() const { return socket_->port(); }

  /// Acts as `systemctl start`. `wrap` may change the command, for example to run under strace. Throws if the
  /// server does not come up.
  void start(const std::function<Words(const Words&)>& wrap = {});
  /// Acts as `systemctl reload`.
  void reload() const;
  /// Acts as `systemctl stop` and returns the exit code.
  int stop() { return server_->stop(SIGTERM); }
  /// Starts the server, which is expected to fail, and waits until it has ended.
  Outcome start_to_the_end() const { return run_program(command_with({})); }
  /// Runs the unit's command with --check-config.
  Outcome check_config() const { return run_program(command_with({"--check-config"})); }

  /// Returns the running server's address for `kind`, which is "https" or "udp". url() returns the address for HTTP.
  std::string address(const std::string& kind);
  std::string url() const { return "http://" + http_; }

  /// Succeeds if the log of the newest server has, now or soon, a line of this level that contains `text`.
  /// Otherwise the failure message shows the log.
  testing::AssertionResult logged(const std::string& level, const std::string& text) const;
  /// Returns the log's lines whose level is above info.
  std::vector<std::string> complaints() const;
  std::string log() const { return server_->err(); }

  /// Returns the value of a series of /metrics, or nothing if there is no such series. Sends `token` with the
  /// request unless it is empty.
  std::optional<double> metric(const std::string& name, const std::string& labels = {},
                               const std::string& token = {}) const;
  bool metric_becomes(double value, const std::string& name, const std::string& labels = {},
                      const std::string& token = {}) const;

 private:
  /// Returns the values of a key in an installed systemd unit.
  std::vector<std::string> in_unit(const std::string& unit, const std::string& key) const;
  Words command_with(const Words& more) const;

  const InstalledPrefix& prefix_;
  const std::filesystem::path folder_;
  std::unique_ptr<KeptSocket> socket_;
  std::unique_ptr<BackgroundProgram> server_;
  std::string http_;
};

}  // namespace millrace::tests
