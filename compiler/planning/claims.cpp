#include "compiler/planning/claims.hpp"

#include <string>
#include <utility>
#include <vector>

namespace millrace::compiler {

Claimer claimer_of(std::shared_ptr<const generators::Plugins> plugins) {
  if (plugins == nullptr) return {};
  return [plugins = std::move(plugins)](const graph::Graph& graph) -> Result<std::vector<Claim>> {
    std::vector<std::string> names;
    for (const graph::Node& node : graph.nodes) names.push_back(node.name);
    const auto describe = [&graph](const std::vector<bool>& taken) { return describe_graph(graph, taken); };
    MILLRACE_ASSIGN(std::vector<generators::PluginSubgraph> found, plugins->partition(describe, names));
    std::vector<Claim> claims;
    for (generators::PluginSubgraph& one : found)
      claims.push_back({std::move(one.name), std::move(one.nodes), std::move(one.op)});
    return claims;
  };
}

}  // namespace millrace::compiler
