// An installed prefix of this build, used from another directory.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"

namespace millrace::tests {

/// Installs this build into a temporary prefix, which the destructor removes.
class InstalledPrefix {
 public:
  InstalledPrefix();  // throws std::runtime_error if `cmake --install` fails

  std::filesystem::path path() const { return directory_.path() / "prefix"; }
  /// The installed `millrace`.
  std::string program() const { return path() / "bin/millrace"; }
  /// A file of share/millrace.
  std::filesystem::path shared(const std::string& file) const { return path() / "share/millrace" / file; }

  /// An empty folder beside the prefix, out of sight of this checkout.
  std::filesystem::path elsewhere() const { return directory_.path() / "elsewhere"; }
  /// `command`, run in elsewhere() with a cache of its own and without environment variables that could lead
  /// it back to this build.
  std::vector<std::string> from_elsewhere(const std::vector<std::string>& command) const;

 private:
  TemporaryDirectory directory_{"millrace-install"};
};

}  // namespace millrace::tests
