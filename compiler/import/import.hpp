// From an ONNX file to a Graph: the only folder that sees ONNX headers.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::import {

/// Reads, checks and shapes a model; the graph is at Level::kImported, every shape static. A symbolic or
/// unknown first axis of an input is the batch and is taken as 1. Weights in external files beside the model
/// are read. Errors name the file, and the node or value: kNotFound, kInvalidInput (not ONNX, truncated,
/// inconsistent, weights missing), kUnsupported (dynamic shape; operators, all listed at once; a model
/// without quantisers).
Result<graph::Graph> import_onnx(const std::filesystem::path& path);

/// Whether a model without quantisers is taken: only where passes::assume_quantised() follows.
enum class FloatModel { kRefused, kTaken };

/// The same from bytes; external data is looked for in `directory`.
Result<graph::Graph> import_onnx(std::vector<std::byte> bytes, const std::string& name,
                                 const std::filesystem::path& directory = {},
                                 FloatModel unquantised = FloatModel::kRefused);

}  // namespace millrace::compiler::import
