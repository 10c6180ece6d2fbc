// Compiles a model of a repository to a deployment, with `millrace compile` in a process of its own. The server can
// kill that process at any point, and a compiler that crashes or needs much memory does no harm to the server.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"

namespace millrace::server::models {

struct Compiler {
  std::vector<std::string> command;  // the program, "compile" and the arguments common to all models
  std::filesystem::path cluster;     // cluster file
  std::string identity;              // digest of the program and the cluster, on which the deployment depends
};

/// Reports progress on the thread that called compile_version(): first with an empty name when the compiler starts,
/// then with the name of each compilation step once it is done. Never called if the cache already holds the
/// deployment.
using CompileProgress = std::function<void(const std::string& step)>;

/// Compiles model.onnx in the folder `source` to a deployment named `name`, and returns the deployment's path. Takes
/// the deployment from the cache if any process has compiled the same files before. Blocks until the compilation is
/// done, even if another process does it. Requesting `stop` kills the compiler, which leaves no files behind, and
/// returns kCancelled. Returns kResourceExhausted if the disk is full, and otherwise the compiler's own error.
Result<std::filesystem::path> compile_version(const Compiler& compiler, const Cache& cache,
                                              const std::string& name, const std::filesystem::path& source,
                                              const std::stop_token& stop, const CompileProgress& progress);

}  // namespace millrace::server::models
