// The table of contents of the compiler: from an ONNX file and a cluster to a deployment directory.
#pragma once

#include <filesystem>
#include <vector>

#include "compiler/plan.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

struct CompileOptions : PlanOptions {
  std::filesystem::path output;  // the deployment directory
};

struct CompileReport {
  Plan design;                     // what was built
  runtime::plan::Deployment plan;  // what was written
  std::vector<StepTime> steps;
};

/// Each step is timed; with progress on stderr through `runtime/base/log` at info level. Nothing is written
/// unless all of it succeeded.
Result<CompileReport> compile(const CompileOptions& options);

}  // namespace millrace::compiler
