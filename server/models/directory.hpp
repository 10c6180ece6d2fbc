// What lies in a repository's root: models, their versions, and whether one has changed. Reads names, sizes
// and times, and no content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::server::models {

struct VersionDirectory {
  std::filesystem::path path;
  enum class Kind { kDeployment, kSource, kNothing } kind = Kind::kNothing;
  /// Of every file's name, size and time of change: another one where anything below the path changed. Empty
  /// where it could not be read.
  std::string fingerprint;
  bool operator==(const VersionDirectory&) const = default;
};

/// Numbers: the newest is the last.
using Versions = std::map<std::uint64_t, VersionDirectory>;

/// The newest version that holds something to serve; end() where none does.
Versions::const_iterator newest_of(const Versions& versions);
using Directory = std::map<std::string, Versions>;  // by model; models without a version are left out

/// kNotFound, kEnvironment where `root` cannot be listed. What is below it and cannot be read is left out, or
/// has no fingerprint.
Result<Directory> scan(const std::filesystem::path& root);

/// A positive number without leading zeros, of at most 18 digits; 0 where it is none.
std::uint64_t parse_version(std::string_view text);

}  // namespace millrace::server::models
