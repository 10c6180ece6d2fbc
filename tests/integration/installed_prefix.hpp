// Installs this build into a temporary prefix, so that tests use the installed files from another directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"

namespace millrace::tests {

/// Installs this build into a temporary folder. The destructor removes the folder.
class InstalledPrefix {
 public:
  InstalledPrefix();  // throws std::runtime_error if `cmake --install` fails

  std::filesystem::path path() const { return directory_.path() / "prefix"; }
  std::string program() const { return path() / "bin/millrace"; }
  /// Returns the path of an installed file in share/millrace.
  std::filesystem::path shared(const std::string& file) const { return path() / "share/millrace" / file; }

  /// An empty folder beside the prefix and outside of this checkout.
  std::filesystem::path elsewhere() const { return directory_.path() / "elsewhere"; }
  /// Returns a command that runs `command` in elsewhere(), with a cache of its own and without environment
  /// variables that could refer to this build.
  std::vector<std::string> from_elsewhere(const std::vector<std::string>& command) const;

 private:
  TemporaryDirectory directory_{"millrace-install"};
};

}  // namespace millrace::tests
