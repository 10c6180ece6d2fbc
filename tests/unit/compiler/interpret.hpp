// What an imported graph means, operator by operator as ONNX defines it, with plain loops: what compiled
// programs are compared with.
#pragma once

#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::tests {

/// Elements in double precision; integers are exact in it. Constants are read from the graph. One input, one
/// output.
std::vector<double> interpret(const compiler::graph::Graph& graph, const std::vector<float>& input);

}  // namespace millrace::tests
