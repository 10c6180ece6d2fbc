#include "server/models/directory.hpp"

#include <sys/stat.h>

#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/base/text.hpp"

namespace millrace::server::models {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostFiles = 10'000;  // of one version; beyond them it is no version of ours
constexpr std::size_t kMostDigits = 18;

std::vector<fs::path> entries(const fs::path& directory, std::error_code& code) {
  std::vector<fs::path> out;
  for (fs::directory_iterator it(directory, code); !code && it != fs::directory_iterator();
       it.increment(code))
    out.push_back(it->path());
  return out;
}

std::string fingerprint(const fs::path& directory) {
  std::map<std::string, std::string> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(directory, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    struct stat file {};
    if (::lstat(it->path().c_str(), &file) != 0) return "";
    files[it->path().lexically_relative(directory).generic_string()] =
        std::to_string(file.st_mode) + " " + std::to_string(file.st_size) + " " +
        std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec) + " " +
        std::to_string(file.st_ino);
    if (files.size() > kMostFiles) return "";
  }
  if (code) return "";
  std::string all;
  for (const auto& [name, state] : files) all += name + '\0' + state + '\n';
  return sha256_hex(std::as_bytes(std::span(all)));
}

VersionDirectory look_at(const fs::path& path) {
  VersionDirectory version;
  std::error_code ignored;
  // Where the link leads, so that another target is another version.
  version.path = fs::canonical(path, ignored);
  if (version.path.empty()) version.path = path;
  if (fs::exists(version.path / "deployment.json", ignored))
    version.kind = VersionDirectory::Kind::kDeployment;
  else if (fs::exists(version.path / "model.onnx", ignored))
    version.kind = VersionDirectory::Kind::kSource;
  version.fingerprint = fingerprint(version.path);
  return version;
}

}  // namespace

std::uint64_t parse_version(std::string_view text) {
  if (text.empty() || text.size() > kMostDigits || text.front() == '0') return 0;
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return 0;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
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
    for (const auto& path : entries(folder, ignored)) {
      const std::uint64_t version = parse_version(path.filename().string());
      if (version == 0 || !fs::is_directory(path, ignored)) continue;
      models[name].emplace(version, look_at(path));
    }
  }
  return models;
}

}  // namespace millrace::server::models
