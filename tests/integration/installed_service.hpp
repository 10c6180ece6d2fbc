// `millrace serve` of an installed prefix as its units start it. The test plays the part of systemd: it reads
// millrace.service and millrace.socket of the prefix and does what they say.
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

  /// `folder` takes the place of /etc/millrace. The settings are those of the server.yaml that is installed.
  InstalledService(const InstalledPrefix& prefix, std::filesystem::path folder);

  /// Replaces a line of server.yaml, given without its indentation. Throws where the file does not have it.
  void set(const std::string& line, const std::string& by);
  /// `systemctl enable --now millrace.socket`, but that the port is a free one.
  void keep_socket();
  std::uint16_t kept_port() const { return socket_->port(); }

  /// `systemctl start`. `wrap` makes the command another, such as one under strace. Throws where the server
  /// does not come up.
  void start(const std::function<Words(const Words&)>& wrap = {});
  /// `systemctl reload`.
  void reload() const;
  /// `systemctl stop`; the exit code.
  int stop() { return server_->stop(SIGTERM); }
  /// A start that is expected to fail.
  Outcome start_to_the_end() const { return run_program(command_with({})); }
  /// The unit's command with --check-config.
  Outcome check_config() const { return run_program(command_with({"--check-config"})); }

  /// Where the server that runs listens. `kind`: https, udp. For http see url().
  std::string address(const std::string& kind);
  std::string url() const { return "http://" + http_; }

  /// Whether the log of the server that runs, or ran last, holds such a line, now or soon; else what it
  /// holds.
  testing::AssertionResult logged(const std::string& level, const std::string& text) const;
  /// Lines above info.
  std::vector<std::string> complaints() const;
  std::string log() const { return server_->err(); }

  /// Of /metrics, asked for with the token, if any; nothing where there is no such series.
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
