// The table of contents of the compiler: from an ONNX file and a cluster to a deployment directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

struct CompileOptions {
  std::filesystem::path model;
  std::filesystem::path cluster;
  std::filesystem::path output;  // the deployment directory
  std::string name;              // default: the model file's stem
  // card partitions; default: as many as the cluster has cards, at most one a layer
  std::optional<std::uint32_t> partitions;
  std::vector<std::string> dump_after;  // names of steps whose graph is printed on stderr; "all": every step
};

struct StepTime {
  std::string name;
  double milliseconds = 0;
};

struct CompileReport {
  runtime::plan::Deployment plan;
  std::vector<StepTime> steps;
};

/// Each step is timed; with progress on stderr through `runtime/base/log` at info level. Nothing is written
/// unless all of it succeeded.
Result<CompileReport> compile(const CompileOptions& options);

}  // namespace millrace::compiler
