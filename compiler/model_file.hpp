// millrace.yaml, beside the model: what an ONNX file cannot say about itself. Keys: README.md.
#pragma once

#include <filesystem>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

/// Adds description, labels and preprocessing of `<folder of the model>/millrace.yaml` to `model`, whose
/// inputs and outputs are known; unchanged where there is no such file. kInvalidInput with file and line:
/// unknown keys, labels that are not as many as the first output's last axis, a layout that does not fit the
/// first input, scales and means that are neither one nor one a channel.
Status read_model_file(const std::filesystem::path& onnx, runtime::plan::ModelInfo& model);

}  // namespace millrace::compiler
