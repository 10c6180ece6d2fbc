// Reads an ONNX file into a compiler graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/front/claims.hpp"
#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Whether import_onnx() refuses a float model (one without quantisers), requires one, or takes both kinds. A float model
/// needs quantisers before the passes run: from passes::assume_quantised(), or from quantize::quantise().
enum class FloatModel { kRefused, kRequired, kTaken };

/// Reads and checks the bytes of a model file, and infers all shapes. The returned graph is at Level::kImported. If the
/// first axis of an input is symbolic or unknown, it is the batch and counts as 1. External weights are read from
/// `directory`. Errors name the node or value: kNotFound (weights), kInvalidInput (not ONNX, truncated, inconsistent,
/// weights missing), kUnsupported (dynamic shapes, unsupported operators, no quantisers). If `claimer` is set, plugins may
/// take nodes of the graph, also nodes with operators that Millrace does not know, if the file declares their shapes.
Result<graph::Graph> import_onnx(std::vector<std::byte> bytes, const std::string& name,
                                 const std::filesystem::path& directory = {},
                                 FloatModel unquantised = FloatModel::kRefused, const Claimer& claimer = {});

/// A node of a model file. `name` is the node's name in the file or, if it has none, the name of its first output. A
/// number makes equal names unique.
struct FileNode {
  std::string name, domain, type;
  std::uint64_t weights = 0;  // number of elements of its constant operands that have several axes
};

/// The part of a model that can be imported. A node that the importer refuses is removed. If the file declares the
/// shape of its result, this result is an input of the graph; otherwise all nodes that depend on it are removed, too. A
/// value that only removed nodes read is an output of the graph.
struct PartlyImported {
  graph::Graph graph;                   // may be without nodes; its `refusals` is empty
  std::vector<FileNode> nodes;          // all nodes of the file but Constant, in the file's order
  std::size_t constants = 0;            // number of Constant nodes
  std::vector<graph::Refusal> refused;  // by the importer
  std::vector<std::string> unknown;     // names of nodes that were taken out because of a shape
  bool quantised = false;               // whether the file has quantisers
};

/// Like import_onnx(), but removes the nodes that import_onnx() refuses. Also accepts models without quantisers.
/// Returns an error only if the file as a whole cannot be read.
Result<PartlyImported> import_partly(std::vector<std::byte> bytes, const std::string& name,
                                     const std::filesystem::path& directory = {},
                                     const Claimer& claimer = {});

}  // namespace millrace::compiler
