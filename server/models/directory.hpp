// Lists a repository's root: the models, their versions and pins, and a fingerprint that tells whether a version has
// changed. Reads the names, sizes and times of files, but the content of no file except PIN.
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
  /// A text that changes with the name, size and time of any file below the path; empty if the folder is unreadable.
  std::string fingerprint;
  bool operator==(const VersionDirectory&) const = default;
};

/// The versions of a model, ordered by number, so the last entry is the newest version.
using Versions = std::map<std::uint64_t, VersionDirectory>;

/// Returns the newest version that holds a deployment or a model, or end() if no version does.
Versions::const_iterator newest_of(const Versions& versions);

struct ModelDirectory {
  std::filesystem::path path;
  Versions versions;
  Pin pin;
  bool operator==(const ModelDirectory&) const = default;
};

/// Returns the version that should serve: the pinned version, or newest_of() if the model is not pinned. Fails with
/// kInvalidInput if PIN is unreadable, and with kNotFound if the pinned version does not exist or holds nothing.
/// Errors name the model and the remedy.
Result<Versions::const_iterator> version_to_serve(const std::string& model, const ModelDirectory& directory);

/// Lists the version numbers for messages: "1, 2, 10", or "none" if there are no versions.
std::string known_versions(const Versions& versions);

using Directory =
    std::map<std::string, ModelDirectory>;  // by model name; a folder without versions and pin is no model

VersionDirectory::Kind kind_of(const std::filesystem::path& version);
inline constexpr char kHoldsNothing[] = "holds neither deployment.json nor model.onnx";

/// Lists all models below `root`. Returns kNotFound or kEnvironment if `root` itself cannot be listed. A model folder
/// that cannot be read is left out; a version folder that cannot be read has no fingerprint.
Result<Directory> scan(const std::filesystem::path& root);

/// Parses a version number: positive, at most 18 digits, without leading zeros. Returns 0 for any other text.
std::uint64_t parse_version(std::string_view text);

/// Returns "model 'm' version '2'", for use in messages.
std::string named(const std::string& model, std::uint64_t version);

}  // namespace millrace::server::models
