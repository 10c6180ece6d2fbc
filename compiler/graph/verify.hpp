// What a graph must satisfy, level by level. Run after every pass: a failure is our bug (kInternal), found
// where it was made.
#pragma once

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::graph {

enum class Level : std::uint8_t {
  kImported,  // ONNX operators only
  kMixed,     // ONNX operators and integer arithmetic, while passes replace the former by the latter
  kInteger,   // no ONNX operator left
  kLowered,   // kernels::Operation only; shapes without batch, channels innermost
};

const char* to_string(Level level);

/// Structure (ids, names, order, one producer a value), the level's operations, and each operation's inputs,
/// types, shapes and constants.
Status verify(const Graph& graph, Level level);

}  // namespace millrace::compiler::graph
