// The rules that a graph must satisfy at each level. They are checked after every pass, so a failure is a bug of
// the compiler (kInternal) in the pass before.
#pragma once

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::graph {

enum class Level : std::uint8_t {
  kImported,  // ONNX operators only
  kMixed,     // ONNX operators and integer arithmetic
  kInteger,   // integer arithmetic only
};

const char* to_string(Level level);

/// Checks the structure (ids, names, order, one producer per value), that the level allows each operation, and
/// each operation's inputs, types, shapes and constants.
Status verify(const Graph& graph, Level level);

}  // namespace millrace::compiler::graph
