#include "compiler/passes/rewrite.hpp"

#include <algorithm>

#include "compiler/operators/lowering.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::passes {

void refuse(Graph& graph, Node& node, const std::string& reason) {
  node.refused = true;
  graph.refusals.push_back({operation_name(node.operation), node.name, reason});
}

Error refusal_error(const Graph& graph) {
  const std::size_t count = graph.refusals.size();
  std::string text = std::to_string(count) + (count == 1 ? " node is" : " nodes are") + " not supported:";
  for (std::size_t i = 0; i < std::min(count, graph::kMostListed); ++i) {
    const graph::Refusal& r = graph.refusals[i];
    text += "\n  " + r.operation + " '" + printable(r.node) + "': " + printable(r.reason);
  }
  return Error(ErrorCode::kUnsupported, text + graph::and_more(count));
}

Graph lower_operators(Graph graph, operators::Lowering operators::Operator::*lowering) {
  const graph::Uses uses(graph);
  std::vector<bool> absorbed(graph.nodes.size());
  std::vector<Node> out;
  for (Node& n : graph.nodes) {
    const OnnxOperator* op = n.refused ? nullptr : onnx_of(n);
    const operators::Operator* row = op == nullptr ? nullptr : operators::find(*op);
    const std::size_t before = out.size();
    operators::Outcome outcome = operators::Outcome::later();
    if (row != nullptr && row->*lowering != nullptr) {
      operators::Site site{graph, uses, out, absorbed, n, *op};
      outcome = (row->*lowering)(site);
    }
    if (!outcome.refusal.empty()) {
      out.resize(before);
      refuse(graph, n, outcome.refusal);
    }
    if (outcome.is_later || n.refused) out.push_back(n);
  }
  graph.nodes = std::move(out);
  return graph;
}

}  // namespace millrace::compiler::passes
