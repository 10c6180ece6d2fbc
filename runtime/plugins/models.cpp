#include "runtime/plugins/models.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "runtime/base/file.hpp"
#include "runtime/plugins/library.hpp"

namespace millrace::runtime::plugins {
namespace {

namespace fs = std::filesystem;

constexpr char kKind[] = "plugin";     // of the cache's entries
constexpr char kFile[] = "plugin.so";  // in an entry

}  // namespace

Status allow_plugins(const plan::LoadedDeployment& deployment, bool allowed) {
  if (deployment.plugins.empty()) return {};
  std::string names;
  for (const auto& [sha256, bytes] : deployment.plugins)
    names += (names.empty() ? "plugins/" : ", plugins/") + sha256 + ".so";
  if (!allowed)
    return Error(ErrorCode::kInvalidInput,
                 deployment.directory.string() + ": it contains the code of plugins (" + names +
                     "), which would run with your rights; if you trust this code, give --allow-plugins");
  MILLRACE_ASSIGN(const Cache cache, Cache::open());
  for (const auto& [sha256, bytes] : deployment.plugins) {
    const auto entry =
        cache.get(kKind, sha256, [&library = bytes](const fs::path& folder, const fs::path&) -> Status {
          return write_new_file(folder / kFile, library);
        });
    if (!entry.ok()) return entry.error();
  }
  return {};
}

Result<fs::path> find_library(const std::string& sha256) {
  MILLRACE_ASSIGN(const Cache cache, Cache::open());
  const auto entry = cache.find(kKind, sha256);
  if (!entry) return Error(ErrorCode::kNotFound, "this machine has no plugin library " + sha256);
  return *entry / kFile;
}

Status load_models(kernels::Program& program, const std::function<void(const kernels::Block&)>& before) {
  std::map<std::string, std::shared_ptr<const Library>> libraries;
  for (kernels::Block& block : program.blocks) {
    auto* const op = std::get_if<kernels::PluginOperator>(&block.operation);
    if (op == nullptr) continue;
    auto& library = libraries[op->library];
    if (library == nullptr) {
      const auto file = find_library(op->library);
      if (!file.ok())
        return Error(file.error().code(),
                     "block '" + block.name + "' is computed by plugin '" + op->plugin +
                         "': " + file.error().message() +
                         "; give the option --allow-plugins to the command that reads the deployment");
      if (before) before(block);
      MILLRACE_ASSIGN(library, Library::open(*file, op->library));
    }
    op->model = model_of(library, program, block);
  }
  return {};
}

Result<fs::path> find_asker() {
  std::error_code code;
  const fs::path folder = fs::read_symlink("/proc/self/exe", code).parent_path();
  for (const auto& candidate : {folder / "millrace-plugin", folder / ".." / "bin" / "millrace-plugin"})
    if (fs::exists(candidate, code)) return candidate.lexically_normal();
  return Error(ErrorCode::kEnvironment,
               "plugins that are shared libraries cannot be used: "
               "the program millrace-plugin is neither beside this program (" +
                   folder.string() + ") nor in ../bin; build or install it");
}

}  // namespace millrace::runtime::plugins
