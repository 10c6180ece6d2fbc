// Writes a compiler graph as an ONNX file.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Returns the bytes of an ONNX model that means what `graph` means. The graph must be at Level::kImported. Inputs,
/// outputs, nodes and values keep their names, and constants become initialisers inside the file. The model has the
/// newest operator set among the graph's nodes, but at least 13, the first with a scale for each channel. Operators of
/// older sets are rewritten for that set. kUnsupported: an operator of an older set has no equal in the newer one; the
/// error names the node.
Result<std::vector<std::byte>> export_onnx(const graph::Graph& graph);

}  // namespace millrace::compiler
