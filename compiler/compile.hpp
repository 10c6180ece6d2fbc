// Entry points of the compiler, which makes a deployment directory from an ONNX file and a cluster.
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
  std::function<std::string(const Plan&)> report;  // makes report.html; if empty, there is no report
};

struct CompileReport {
  Plan design;                     // what was built
  runtime::plan::Deployment plan;  // what was written
  std::vector<StepTime> steps;
};

/// Checks options before any file is read: there must be an output directory, and --assume, which is for planning only,
/// must not be given.
Status check_options(const CompileOptions& options);

/// A deployment in memory, not yet written to disk.
struct Built {
  CompileReport report;
  emit::Artifacts artifacts;
};

/// Builds a plan that was made with these options and Play::kAll (so every design was simulated). Writes nothing to
/// disk. `report.plan` stays empty, because the plan is in the artifacts.
Result<Built> build(Plan plan, const CompileOptions& options);

/// Compiles a model. Writes its deployment directory only if all steps succeed. Times each step and logs progress.
Result<CompileReport> compile(const CompileOptions& options);

}  // namespace millrace::compiler
