// millrace.yaml, beside the model: what an ONNX file cannot say about itself. Keys: README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

/// Adds description, labels and preprocessing of `<folder of the model>/millrace.yaml` to `model`, whose
/// inputs and outputs are known; unchanged where there is no such file. kInvalidInput with file and line:
/// unknown keys, labels that are not as many as the first output's last axis, a layout that does not fit the
/// first input, scales and means that are neither one nor one a channel.
Status read_model_file(const std::filesystem::path& onnx, runtime::plan::ModelInfo& model);

/// How the model's owner wants it built, where whoever compiles it says nothing else.
struct CompileWishes {
  std::string weights;    // "baked-first", "auto", "baked", "loaded", "streamed"; empty: not said
  std::string objective;  // "cards", "throughput", "latency"; empty: not said
  std::optional<std::uint32_t> partitions, replicas;
  std::optional<double> target_fps, max_latency_us;
};

/// The section `compile` of that file; nothing said where either is missing. kInvalidInput as above.
Result<CompileWishes> read_wishes(const std::filesystem::path& onnx);

}  // namespace millrace::compiler
