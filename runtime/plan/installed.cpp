#include "runtime/plan/installed.hpp"

#include <algorithm>
#include <system_error>
#include <vector>

namespace millrace::runtime::plan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".yaml";

/// Returns `share/<what>` next to the folder of this program, or an empty path if there is none.
fs::path shared(const fs::path& what) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path found = fs::canonical(program.parent_path() / ".." / "share" / what, error);
  return error ? fs::path() : found;
}

std::string names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == kExtension) names.push_back(at->path().stem().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

fs::path installed(std::string_view what) {
  return shared(fs::path("millrace") / what);
}

std::string document(std::string_view name) {
  const fs::path found = shared(fs::path("doc/millrace") / name);
  return found.empty() ? std::string(name) : found.string();
}

Result<fs::path> find_cluster(const fs::path& given, const fs::path& folder) {
  const fs::path path = folder.empty() ? given : (folder / given).lexically_normal();
  std::error_code error;
  if (given.has_parent_path() || (fs::exists(path, error) && !fs::is_directory(path, error))) return path;
  const fs::path clusters = installed("clusters");
  if (clusters.empty()) return path;
  std::string name = given.string();
  if (name.ends_with(kExtension)) name.resize(name.size() - kExtension.size());
  const fs::path found = clusters / (name + std::string(kExtension));
  if (fs::is_regular_file(found, error)) return found;
  return Error(ErrorCode::kNotFound,
               "cluster '" + path.string() + "': there is no file with this path, and no cluster in " +
                   clusters.string() + " has this name; the folder contains " + names_in(clusters));
}

Result<fs::path> find_device(const std::string& kind, const fs::path& devices) {
  const std::string name = kind + std::string(kExtension);
  std::error_code error;
  if (fs::exists(devices / name, error)) return devices / name;
  const fs::path others = installed("devices");
  if (!others.empty() && fs::is_regular_file(others / name, error)) return others / name;
  std::string text = "no description of '" + kind + "': " + (devices / name).string() + " is missing";
  if (!others.empty())
    text += "; write this file, or use a kind that Millrace describes: " + names_in(others);
  return Error(ErrorCode::kNotFound, text);
}

}  // namespace millrace::runtime::plan
