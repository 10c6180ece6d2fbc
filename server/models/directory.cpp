#include "server/models/directory.hpp"

#include <sys/stat.h>

#include <charconv>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/base/text.hpp"

namespace millrace::server::models {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostFiles = 10'000;  // most files in one version
constexpr std::size_t kMostDigits = 18;

std::vector<fs::path> entries(const fs::path& directory, std::error_code& code) {
  std::vector<fs::path> out;
  for (fs::directory_iterator it(directory, code); !code && it != fs::directory_iterator();
       it.increment(code))
    out.push_back(it->path());
  return out;
}

/// Adds mode, size, time and inode of every file below `directory` to `files`. The keys are the files' paths relative
/// to `directory`, prefixed with `inside`. Returns false if a file cannot be read.
bool describe(const fs::path& directory, const std::string& inside,
              std::map<std::string, std::string>& files) {
  std::error_code code;
  for (const fs::path& path : entries(directory, code)) {
    struct stat file {};
    if (::lstat(path.c_str(), &file) != 0) return false;
    const std::string name = inside + path.filename().string();
    files[name] = std::to_string(file.st_mode) + " " + std::to_string(file.st_size) + " " +
                  std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec) + " " +
                  std::to_string(file.st_ino);
    if (files.size() > kMostFiles) return false;
    if (S_ISDIR(file.st_mode) && !describe(path, name + "/", files)) return false;
  }
  return !code;
}

std::string fingerprint(const fs::path& directory) {
  std::map<std::string, std::string> files;
  if (!describe(directory, "", files)) return "";
  std::string all;
  for (const auto& [name, state] : files) all += name + '\0' + state + '\n';
  return sha256_hex(std::as_bytes(std::span(all)));
}

VersionDirectory read_version(const fs::path& path) {
  VersionDirectory version;
  std::error_code ignored;
  // Resolve symbolic links, so that a link's new target counts as a change.
  version.path = fs::canonical(path, ignored);
  if (version.path.empty()) version.path = path;
  version.kind = kind_of(version.path);
  version.fingerprint = fingerprint(version.path);
  return version;
}

}  // namespace

VersionDirectory::Kind kind_of(const fs::path& version) {
  std::error_code ignored;
  if (fs::exists(version / "deployment.json", ignored)) return VersionDirectory::Kind::kDeployment;
  if (fs::exists(version / "model.onnx", ignored)) return VersionDirectory::Kind::kSource;
  return VersionDirectory::Kind::kNothing;
}

Versions::const_iterator newest_of(const Versions& versions) {
  for (auto it = versions.end(); it != versions.begin();)
    if ((--it)->second.kind != VersionDirectory::Kind::kNothing) return it;
  return versions.end();
}

std::string known_versions(const Versions& versions) {
  std::string text;
  for (const auto& [version, directory] : versions)
    text += (text.empty() ? "" : ", ") + std::to_string(version);
  return text.empty() ? "none" : text;
}

Result<Versions::const_iterator> version_to_serve(const std::string& model, const ModelDirectory& directory) {
  const Versions& versions = directory.versions;
  const Pin& pin = directory.pin;
  if (!pin.unreadable.empty()) return Error(ErrorCode::kInvalidInput, pin.unreadable);
  if (pin.version == 0) {
    const auto newest = newest_of(versions);
    if (newest != versions.end()) return newest;
    return Error(ErrorCode::kNotFound, "model '" + model +
                                           "' has nothing to serve: "
                                           "of its versions (" +
                                           known_versions(versions) + ") each " + kHoldsNothing);
  }
  const auto pinned = versions.find(pin.version);
  if (pinned != versions.end() && pinned->second.kind != VersionDirectory::Kind::kNothing) return pinned;
  return Error(ErrorCode::kNotFound,
               "model '" + model + "' is pinned to version '" + std::to_string(pin.version) + "', which " +
                   (pinned == versions.end() ? "is not in the repository; it has " + known_versions(versions)
                                             : kHoldsNothing) +
                   "; no other version is loaded: "
                   "add the pinned version, or " +
                   how_to_unpin(directory.path));
}

std::uint64_t parse_version(std::string_view text) {
  if (text.empty() || text.size() > kMostDigits || text.front() == '0') return 0;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

std::string named(const std::string& model, std::uint64_t version) {
  return "model '" + model + "' version '" + std::to_string(version) + "'";
}

Result<Directory> scan(const fs::path& root) {
  std::error_code code;
  const auto failed = [&](const std::string& why) {
    return Error(fs::exists(root, code) ? ErrorCode::kEnvironment : ErrorCode::kNotFound,
                 "repository " + root.string() + ": " + why);
  };
  Directory models;
  const auto folders = entries(root, code);
  if (code) return failed("cannot be listed: " + code.message());
  for (const auto& folder : folders) {
    const std::string name = folder.filename().string();
    std::error_code ignored;
    if (!is_name(name) || !fs::is_directory(folder, ignored)) continue;
    ModelDirectory model{folder, {}, read_pin(folder)};
    for (const auto& path : entries(folder, ignored)) {
      const std::uint64_t version = parse_version(path.filename().string());
      if (version == 0 || !fs::is_directory(path, ignored)) continue;
      model.versions.emplace(version, read_version(path));
    }
    if (!model.versions.empty() || model.pin.is_set()) models.emplace(name, std::move(model));
  }
  return models;
}

}  // namespace millrace::server::models
