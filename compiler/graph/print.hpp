// A graph as text, for --dump-after: one line per node, in order, with types and shapes.
#pragma once

#include <string>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::graph {

std::string print(const Graph& graph);

}  // namespace millrace::compiler::graph
