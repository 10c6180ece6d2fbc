// The table of contents of the compiler: from an ONNX file and a cluster to a deployment directory.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "compiler/emit/deployment.hpp"
#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

struct CompileOptions : PlanOptions {
  std::filesystem::path output;                    // the deployment directory
  std::function<std::string(const Plan&)> report;  // makes its report.html; empty: it gets none
};

struct CompileReport {
  Plan design;                     // what was built
  runtime::plan::Deployment plan;  // what was written
  std::vector<StepTime> steps;
};

/// What must hold before anything is read: an output is named, and the model is not assumed.
Status check_options(const CompileOptions& options);

/// A deployment that is not on disk yet.
struct Built {
  CompileReport report;
  emit::Artifacts artifacts;
};

/// Builds a plan that was made with these options and Play::kAll, and writes nothing. `report.plan` stays empty: the
/// plan is in the artifacts.
Result<Built> build(Plan plan, const CompileOptions& options);

/// Each step is timed; with progress on stderr through `runtime/base/log` at info level. Nothing is written
/// unless all of it succeeded.
Result<CompileReport> compile(const CompileOptions& options);

}  // namespace millrace::compiler
