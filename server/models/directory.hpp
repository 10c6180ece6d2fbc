// Lists a repository's root: models, their versions and pins, and a fingerprint that tells whether a version
// has changed. Reads file names, sizes and times, and no content except PIN.
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
  /// Changes if the name, size or time of any file below the path changes. Empty if the folder cannot be
  /// read.
  std::string fingerprint;
  bool operator==(const VersionDirectory&) const = default;
};

/// By number, so the newest is the last.
using Versions = std::map<std::uint64_t, VersionDirectory>;

/// The newest version that holds a deployment or a model; end() if none does.
Versions::const_iterator newest_of(const Versions& versions);

struct ModelDirectory {
  std::filesystem::path path;
  Versions versions;
  Pin pin;
  bool operator==(const ModelDirectory&) const = default;
};

/// The version that should serve: the pinned one, or newest_of() if the model is not pinned. Errors name the
/// model and the remedy: kInvalidInput if PIN is unreadable, kNotFound if that version does not exist or
/// holds nothing.
Result<Versions::const_iterator> version_to_serve(const std::string& model, const ModelDirectory& directory);

/// "1, 2, 10"; "none".
std::string known_versions(const Versions& versions);

using Directory =
    std::map<std::string, ModelDirectory>;  // by name; a folder without versions and pin is no model

VersionDirectory::Kind kind_of(const std::filesystem::path& version);
inline constexpr char kHoldsNothing[] = "holds neither deployment.json nor model.onnx";

/// kNotFound or kEnvironment if `root` cannot be listed. A folder below it that cannot be read is left out,
/// or has no fingerprint.
Result<Directory> scan(const std::filesystem::path& root);

/// A positive number without leading zeros, of at most 18 digits; 0 for any other text.
std::uint64_t parse_version(std::string_view text);

/// "model 'm' version '2'", for messages.
std::string named(const std::string& model, std::uint64_t version);

}  // namespace millrace::server::models
