// Reads an ONNX file and the millrace.yaml in its folder, and lowers the model to a program.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/front/claims.hpp"
#include "compiler/front/steps.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

struct ModelOptions {
  std::filesystem::path model;
  std::string name;    // default: the file's name without extension
  std::string assume;  // the types with which a float model is planned: "int8", "w4a8-pow2", …
  /// The bytes of a QDQ model that compiler/quantize made from the model in the file. If set, they are compiled in
  /// place of the file's bytes.
  std::shared_ptr<const std::vector<std::byte>> quantised;
  Claimer claimer;  // lets plugins take nodes of the graph; may be empty
  std::vector<std::string>
      dump_after;  // the steps after which the graph is printed on stderr; "all": every step
};

/// A model after import and lowering, as the later parts of the compiler use it.
struct Model {
  runtime::plan::ModelInfo info;
  std::string assumed;             // ModelOptions::assume; unless empty, the model can only be planned
  std::vector<std::string> notes;  // which nodes may differ from the float model, and why
  kernels::Program program;        // accepted by kernels::validate()
};

/// Returns kInvalidInput if the model's name is not valid or a step in `dump_after` does not exist. Reads no file.
Status check_options(const ModelOptions& options);

/// Reads, imports and lowers the model. Each step is timed in `steps`.
Result<Model> read_model(const ModelOptions& options, Steps& steps);

}  // namespace millrace::compiler
