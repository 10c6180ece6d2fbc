// Takes nodes out of an imported graph, so that the other nodes can be compiled without them.
#include <algorithm>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::graph {

std::vector<bool> dynamic_values(const Graph& graph) {
  std::vector<bool> dynamic(graph.values.size(), false);
  for (const ValueId v : graph.inputs) dynamic[v] = true;
  for (const Node& n : graph.nodes) {
    const bool reads = std::any_of(n.inputs.begin(), n.inputs.end(),
                                   [&dynamic](ValueId v) { return v != kNoValue && dynamic[v]; });
    for (const ValueId v : n.outputs)
      if (v != kNoValue) dynamic[v] = dynamic[v] || reads;
  }
  return dynamic;
}

void add_outputs(Graph& graph, const std::set<ValueId>& loose) {
  const Uses uses(graph);
  const std::vector<bool> dynamic = dynamic_values(graph);
  for (const ValueId v : loose) {
    if (!dynamic[v] || uses.producer[v] < 0 || !uses.readers[v].empty() || uses.is_output[v]) continue;
    const Value& value = graph.value(v);
    graph.outputs.push_back(v);
    graph.output_signatures.push_back({value.name, value.type, value.shape});
  }
}

std::size_t cut(Graph& graph, const std::set<std::string>& sources) {
  std::set<ValueId> loose, orphans;
  const auto goes = [&sources](const Node& n) {
    return std::any_of(n.sources.begin(), n.sources.end(),
                       [&sources](const std::string& s) { return sources.contains(s); });
  };
  for (const Node& n : graph.nodes) {
    if (!goes(n)) continue;
    for (const ValueId v : n.inputs)
      if (v != kNoValue) loose.insert(v);
    for (const ValueId v : n.outputs)
      if (v != kNoValue) orphans.insert(v);
  }
  const std::size_t taken = std::erase_if(graph.nodes, goes);
  std::vector<ValueId> outputs;
  std::vector<Signature> signatures;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    if (orphans.contains(graph.outputs[i])) continue;
    outputs.push_back(graph.outputs[i]);
    signatures.push_back(graph.output_signatures[i]);
  }
  graph.outputs = std::move(outputs);
  graph.output_signatures = std::move(signatures);
  const Uses uses(graph);
  for (const ValueId v : orphans) {
    if (uses.readers[v].empty()) continue;
    const Value& value = graph.value(v);
    graph.inputs.push_back(v);
    graph.input_signatures.push_back({value.name, value.type, value.shape});
  }
  add_outputs(graph, loose);
  return taken;
}

}  // namespace millrace::compiler::graph
