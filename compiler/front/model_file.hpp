// Reads millrace.yaml, which is beside the model and says what an ONNX file cannot say. Keys: compiler/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

/// Adds description, labels and preprocessing of `<folder of the model>/millrace.yaml` to `model`, whose inputs and
/// outputs must be known. Changes nothing if there is no such file. kInvalidInput, with file and line: unknown
/// keys, another number of labels than the last axis of the first output, a layout that does not fit the first
/// input, another number of scales or means than one or one per channel.
Status read_model_file(const std::filesystem::path& onnx, runtime::plan::ModelInfo& model);

/// How the model's owner wants the model to be built. Options of the command line take precedence.
struct CompileDefaults {
  std::string weights;    // "baked-first", "auto", "baked", "loaded", "streamed"; empty: not given
  std::string objective;  // "cards", "throughput", "latency"; empty: not given
  std::optional<std::uint32_t> partitions, replicas;
  std::optional<double> target_fps, max_latency_us;
};

/// The section `compile` of that file. All fields are empty if there is no file or no section. kInvalidInput as
/// above.
Result<CompileDefaults> read_compile_defaults(const std::filesystem::path& onnx);

}  // namespace millrace::compiler
