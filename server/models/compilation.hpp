// A model of a repository compiled to a deployment: `millrace compile` in a process of its own, so that it
// can be stopped at any point, and what it takes or breaks is not the server's.
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
  std::vector<std::string> command;  // the program, "compile" and what does not depend on the model
  std::filesystem::path cluster;     // cluster file
  std::string identity;              // of program and cluster: what the result depends on beside the model
};

/// What is told while a version is compiled, on the thread that called. Nothing of it where the deployment is
/// taken from the cache.
struct CompileProgress {
  std::function<void()> began;                        // the compiler starts
  std::function<void(const std::string&)> step_done;  // the step's name
};

/// The deployment of `source` (holding model.onnx) named `name`, from the cache where it was compiled before
/// from the same files, by this process or another. Blocks;
/// kCancelled once `stop` is asked for, the process killed and nothing left behind, also while another
/// process compiles the same and is waited for; kResourceExhausted where the disk is full; else as the
/// compiler fails, with its words.
Result<std::filesystem::path> compile_version(const Compiler& compiler, const Cache& cache,
                                              const std::string& name, const std::filesystem::path& source,
                                              const std::stop_token& stop, const CompileProgress& progress);

}  // namespace millrace::server::models
