// Lets plugins take nodes of an imported graph. Each group of nodes that a plugin takes becomes one node of the graph.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Nodes that a plugin computes as one block.
struct Claim {
  std::string name;                // of the block
  std::vector<std::size_t> nodes;  // ascending indices into Graph::nodes
  kernels::PluginOperator op;
};

/// Returns what plugins take of a graph at Level::kImported. No node is in two claims.
using Claimer = std::function<Result<std::vector<Claim>>(const graph::Graph&)>;

/// Describes a graph at Level::kImported in JSON for plugins (compiler/generators/README.md). taken[i] says whether an
/// earlier plugin has node i. Large constants, and constants that are not finite, are described without elements.
std::string describe_graph(const graph::Graph& graph, const std::vector<bool>& taken);

/// Replaces the nodes of each claim by one node. The node's inputs are the values that the claim reads but does not
/// produce, without constants. Its outputs are the values that the claim produces and that other nodes or the graph's
/// outputs need. A DequantizeLinear of a claim stays if nodes outside of the claim read it, too. kInvalidInput, with at
/// most ten lines: an input or output is not an integer tensor, the node would have no input or no output, or a node
/// outside of the claim lies between the claim's nodes.
Status apply_claims(graph::Graph& graph, const std::vector<Claim>& claims);

}  // namespace millrace::compiler
