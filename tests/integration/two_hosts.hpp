// Two hosts on this machine: two network namespaces, joined by a virtual cable, each with a host name of its own (UTS
// namespace). A launcher that runs in the first host starts processes in the second one through an rsh agent, a script.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"

namespace millrace::tests {

class TwoHosts {
 public:
  /// Whether this process may make namespaces.
  static bool is_possible();

  TwoHosts();
  ~TwoHosts();  // no process may run in the hosts any more
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  /// Whether both hosts exist.
  bool made() const { return made_; }
  /// The name that `hostname` prints in a host, and the host's IPv4 address.
  const std::string& name(std::size_t host) const { return names_[host]; }
  std::string address(std::size_t host) const { return "10.77.13." + std::to_string(host + 1); }

  /// Returns a command that runs `command` in the first host.
  std::vector<std::string> in_first(const std::vector<std::string>& command) const;
  /// The script that runs a command in the second host: <script> HOST COMMAND….
  std::filesystem::path agent() const { return folder_.path() / "agent"; }

 private:
  TemporaryDirectory folder_{"millrace-hosts"};
  std::array<std::string, 2> names_;
  bool made_ = false;
};

}  // namespace millrace::tests
