// What lies in a repository's root: models, their versions and pins, and whether a version has changed. Reads
// names, sizes and times, and of content only PIN.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "runtime/base/result.hpp"
#include "server/models/pin.hpp"

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

struct ModelDirectory {
  std::filesystem::path path;
  Versions versions;
  Pin pin;
  bool operator==(const ModelDirectory&) const = default;
};

/// The version that should serve: the pinned one; where the model is not pinned, the newest that holds
/// something. An error names the model and the remedy: kInvalidInput where PIN is unreadable, kNotFound where
/// the pinned version is not there or holds nothing, or no version does.
Result<Versions::const_iterator> version_to_serve(const std::string& model, const ModelDirectory& directory);

/// "1, 2, 10"; "none".
std::string known_versions(const Versions& versions);

using Directory =
    std::map<std::string, ModelDirectory>;  // by model; without versions and pin, one is left out

/// What a version's directory holds.
VersionDirectory::Kind kind_of(const std::filesystem::path& version);
inline constexpr char kHoldsNothing[] = "holds neither deployment.json nor model.onnx";

/// kNotFound, kEnvironment where `root` cannot be listed. What is below it and cannot be read is left out, or
/// has no fingerprint.
Result<Directory> scan(const std::filesystem::path& root);

/// A positive number without leading zeros, of at most 18 digits; 0 where it is none.
std::uint64_t parse_version(std::string_view text);

}  // namespace millrace::server::models
