#include "compiler/passes/passes.hpp"

#include <array>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Level;

/// Makes node names unique. Passes derive new names from old names, and the ONNX file may already use such a name.
void make_node_names_unique(Graph& graph) {
  graph::Names names;
  for (Node& n : graph.nodes) n.name = names.unique(n.name);
}

}  // namespace

std::span<const Pass> standard_passes() {
  static constexpr std::array<Pass, 11> kPasses = {{
      {"fold_constants", fold_constants, Level::kImported},
      {"remove_dead", remove_dead, Level::kImported},
      {"lower_elementwise", lower_elementwise, Level::kMixed},
      {"tabulate", tabulate, Level::kMixed},
      {"sink_dequantise", sink_dequantise, Level::kMixed},
      {"lower_qdq", lower_qdq, Level::kInteger},
      {"raise_quantise", raise_quantise, Level::kInteger},
      {"merge_elementwise", merge_elementwise, Level::kInteger},
      {"fuse_requantise", fuse_requantise, Level::kInteger},
      {"join_branches", join_branches, Level::kInteger},
      {"narrow_signs", narrow_signs, Level::kInteger},
  }};
  return kPasses;
}

Result<Graph> run_standard_passes(Graph graph, const std::function<void(const Pass&, const Graph&)>& after,
                                  const std::function<void(const Graph&)>& refused) {
  for (const Pass& pass : standard_passes()) {
    auto result = pass.run(std::move(graph));
    if (!result.ok()) return result;
    graph = std::move(*result);
    if (pass.gives == Level::kInteger && !graph.refusals.empty()) {
      if (refused) refused(graph);
      return refusal_error(graph);
    }
    make_node_names_unique(graph);
    const Status status = graph::verify(graph, pass.gives);
    if (!status.ok()) return status.error().within(std::string("after ") + pass.name);
    if (after) after(pass, graph);
  }
  return graph;
}

}  // namespace millrace::compiler::passes
