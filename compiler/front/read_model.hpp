// Reads an ONNX file, and the millrace.yaml beside it, and lowers the model to a program.
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
  std::string name;    // default: the file's stem
  std::string assume;  // "int8", "w4a8-pow2", …: the types to plan a float model with
  std::vector<std::string>
      dump_after;  // the steps after which the graph is printed on stderr; "all": every step
};

/// A model as the rest of the compiler sees it.
struct Model {
  runtime::plan::ModelInfo info;
  std::string assumed;             // ModelOptions::assume; unless empty, the model can only be planned
  std::vector<std::string> notes;  // which nodes may differ from the float model, and why
  kernels::Program program;        // valid
};

/// kInvalidInput if the model's name is not valid or a step in `dump_after` does not exist. Reads no file.
Status check_options(const ModelOptions& options);

/// Reads, imports and lowers the model. Times each step.
Result<Model> read_model(const ModelOptions& options, Steps& steps);

}  // namespace millrace::compiler
