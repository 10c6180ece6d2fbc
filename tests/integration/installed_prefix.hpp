// What `cmake --install` puts into a prefix, used from elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/file.hpp"

namespace millrace::tests {

/// This build, installed into a prefix of its own for as long as it lives.
class InstalledPrefix {
 public:
  InstalledPrefix();  // throws std::runtime_error where `cmake --install` fails

  std::filesystem::path path() const { return directory_.path() / "prefix"; }
  /// The installed `millrace`.
  std::string program() const { return path() / "bin/millrace"; }
  /// A file of share/millrace.
  std::filesystem::path shared(const std::string& file) const { return path() / "share/millrace" / file; }

  /// An empty folder beside the prefix, out of sight of this checkout.
  std::filesystem::path elsewhere() const { return directory_.path() / "elsewhere"; }
  /// The command in that folder, with a cache of its own and without what could lead it back to this build.
  std::vector<std::string> from_elsewhere(const std::vector<std::string>& command) const;

 private:
  TemporaryDirectory directory_{"millrace-install"};
};

}  // namespace millrace::tests
