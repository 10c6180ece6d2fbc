// Types and shapes of an ONNX node's outputs from its inputs. Private to compiler/import.
#pragma once

#include <string>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::import {

/// Sets type and shape of `node`'s first output. Its inputs are known (constants where their values decide
/// shapes). Empty where it succeeded, else what is wrong with the node.
std::string infer(graph::Graph& graph, const graph::Node& node);

}  // namespace millrace::compiler::import
