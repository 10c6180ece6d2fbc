// Compiles a model of a repository to a deployment, with `millrace compile` in a process of its own. The
// server can kill that process at any point, and a compiler that crashes or needs much memory does no harm to
// the server.
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
  std::string identity;              // digest of program and cluster, which the deployment depends on
};

/// Called on the calling thread with an empty name when the compiler starts, and then with the name of each
/// step that is done. Not called if the cache holds the deployment.
using CompileProgress = std::function<void(const std::string& step)>;

/// Compiles the folder `source`, which holds model.onnx, to a deployment named `name`. Takes the deployment
/// from the cache if this or another process has compiled the same files before. Blocks, also while another
/// process compiles them. kCancelled once `stop` is requested: the compiler is killed and leaves no files.
/// kResourceExhausted if the disk is full. Otherwise the compiler's own error.
Result<std::filesystem::path> compile_version(const Compiler& compiler, const Cache& cache,
                                              const std::string& name, const std::filesystem::path& source,
                                              const std::stop_token& stop, const CompileProgress& progress);

}  // namespace millrace::server::models
