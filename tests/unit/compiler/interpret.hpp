// Interprets an imported graph operator by operator as ONNX defines it, with plain loops. Tests compare compiled
// programs with the result.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::tests {

/// Computes the output of a graph with one input and one output. Elements are of type double, which is exact for the
/// integers of these models.
std::vector<double> interpret(const compiler::graph::Graph& graph, const std::vector<float>& input);

}  // namespace millrace::tests
