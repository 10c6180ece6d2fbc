// Reads millrace.yaml, a file in the model's folder with facts that an ONNX file cannot hold. Keys: compiler/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

/// Adds description, labels and preprocessing from `<folder of the model>/millrace.yaml` to `model`, whose inputs and
/// outputs must be known. Changes nothing if the file does not exist. Returns kInvalidInput, with file and line, in
/// four cases: an unknown key; not as many labels as the last axis of the first output has elements; a layout that does
/// not fit the first input; several scales or means, but not one for each channel.
Status read_model_file(const std::filesystem::path& onnx, runtime::plan::ModelInfo& model);

/// How the model's owner wants the model to be built. Options of the command line take precedence.
struct CompileDefaults {
  std::string weights;    // "baked-first", "auto", "baked", "loaded", "streamed"; empty: not given
  std::string objective;  // "cards", "throughput", "latency"; empty: not given
  std::optional<std::uint32_t> partitions, replicas;
  std::optional<double> target_fps, max_latency_us;
};

/// Reads the section `compile` of millrace.yaml. All fields are empty if the file or the section does not exist.
/// Returns the errors of read_model_file().
Result<CompileDefaults> read_compile_defaults(const std::filesystem::path& onnx);

}  // namespace millrace::compiler
