// Reads an ONNX file into a compiler graph.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Whether import_onnx() refuses a float model (one without quantisers), requires one, or takes both kinds. A float model
/// needs quantisers before the passes run: from passes::assume_quantised(), or from quantize::quantise().
enum class FloatModel { kRefused, kRequired, kTaken };

/// Reads and checks the bytes of a model file, and infers all shapes. The returned graph is at Level::kImported. If the
/// first axis of an input is symbolic or unknown, it is the batch and counts as 1. External weights are read from
/// `directory`. Errors name the node or value: kNotFound (weights), kInvalidInput (not ONNX, truncated, inconsistent,
/// weights missing), kUnsupported (dynamic shapes, unsupported operators, no quantisers).
Result<graph::Graph> import_onnx(std::vector<std::byte> bytes, const std::string& name,
                                 const std::filesystem::path& directory = {},
                                 FloatModel unquantised = FloatModel::kRefused);

}  // namespace millrace::compiler
