// From an ONNX file, and the millrace.yaml beside it, to a program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/front/steps.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

struct ModelOptions {
  std::filesystem::path model;
  std::string name;                     // default: the file's stem
  std::string assume;                   // "int8", "w4a8-pow2", …: the types to plan a float model with
  std::vector<std::string> dump_after;  // names of steps whose graph is printed on stderr; "all": every step
};

/// A model as everything behind the front sees it.
struct Model {
  runtime::plan::ModelInfo info;
  std::string assumed;             // ModelOptions::assume; where it is not empty, the model cannot be built
  std::vector<std::string> notes;  // where the integers may differ from the float model: "pool: averages …"
  kernels::Program program;        // valid
};

/// kInvalidInput if the model's name cannot be one, or a step in `dump_after` does not exist. Reads no file.
Status check_options(const ModelOptions& options);

/// Reads, imports and lowers the model. Each step is timed.
Result<Model> read_model(const ModelOptions& options, Steps& steps);

}  // namespace millrace::compiler
