// From an imported graph to blocks: the passes, in the order in which they run. One pass, one file, one free
// function.
#pragma once

#include <functional>
#include <span>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/verify.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

using graph::Graph;

/// A pass takes a graph and gives the changed one, or an error the model's owner can act on (all of its kind
/// at once).
struct Pass {
  const char* name;  // the function's name: "fold_constants"
  Result<Graph> (*run)(Graph);
  graph::Level gives;  // what the graph satisfies afterwards
};

/// Imported -> lowered. Constant for the life of the program.
std::span<const Pass> standard_passes();

/// Runs all of them, verifying after each; `after`, where given, sees the graph after each pass.
Result<Graph> run_standard_passes(Graph graph,
                                  const std::function<void(const Pass&, const Graph&)>& after = {});

}  // namespace millrace::compiler::passes
