// Helpers for plugins in C++17: they read the graph of millrace_plugin.h and select nodes in it. The file needs only
// millrace_plugin.h and the standard library.
//
//   int partition(const millrace_graph* graph, const millrace_answer* answer) {
//     const millrace::plugin::Graph model(*graph);
//     for (auto& found : model.filter_by_template({{"DequantizeLinear"}, {"org.example:Sort", {0}}, {"QuantizeLinear", {1}}})) {
//       found.name = "sort", found.device = "card", found.runner = "sort";
//       found.select(*answer);
//     }
//     return 0;
//   }
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "millrace_plugin.h"

namespace millrace::plugin {

/// Nodes that become one block. The fields are those of millrace_subgraph.
struct Subgraph {
  std::vector<std::size_t> nodes;  // ascending indices into millrace_graph.nodes
  std::string name, device = "card", runner, settings;

  /// Adds the nodes of another subgraph. The other fields stay.
  void merge(const Subgraph& other) {
    nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  }
  /// Gives the subgraph to Millrace.
  void select(const millrace_answer& answer) const {
    const millrace_subgraph plain{name.c_str(),     device.c_str(), runner.c_str(),
                                  settings.c_str(), nodes.data(),   nodes.size()};
    answer.select(answer.context, &plain);
  }
};

/// One node of a template. `type` is "Conv", or "domain:type" for another domain than ai.onnx, or "*" for any operator.
/// `operands[i]` is the index of the template's node that produces input i of the node, or kAny. Further inputs may be
/// anything.
struct TemplateNode {
  static constexpr int kAny = -1;
  std::string type;
  std::vector<int> operands = {};
};

class Graph {
 public:
  /// The graph must outlive this object.
  explicit Graph(const millrace_graph& graph) : graph_(graph), producer_(graph.value_count, -1) {
    for (std::size_t i = 0; i < graph.node_count; ++i)
      for (std::size_t k = 0; k < graph.nodes[i].output_count; ++k)
        if (graph.nodes[i].outputs[k] >= 0)
          producer_[static_cast<std::size_t>(graph.nodes[i].outputs[k])] = static_cast<std::ptrdiff_t>(i);
  }

  const millrace_node& node(std::size_t i) const { return graph_.nodes[i]; }
  /// Returns the value that a node reads as input `i`, or null if it has no such input.
  const millrace_value* input(const millrace_node& node, std::size_t i) const {
    return i < node.input_count && node.inputs[i] >= 0 ? &graph_.values[node.inputs[i]] : nullptr;
  }
  const millrace_value* output(const millrace_node& node, std::size_t i) const {
    return i < node.output_count && node.outputs[i] >= 0 ? &graph_.values[node.outputs[i]] : nullptr;
  }
  /// Returns an attribute, or null if the node has none of this name.
  static const millrace_attribute* attribute(const millrace_node& node, const std::string& name) {
    for (std::size_t i = 0; i < node.attribute_count; ++i)
      if (node.attributes[i].name == name) return &node.attributes[i];
    return nullptr;
  }

  /// Returns the node that produces input `i` of a node: a subgraph of one node, or of none if no node does.
  Subgraph producer(const millrace_node& node, std::size_t i) const {
    Subgraph found;
    if (i >= node.input_count || node.inputs[i] < 0) return found;
    const std::ptrdiff_t from = producer_[static_cast<std::size_t>(node.inputs[i])];
    if (from >= 0) found.nodes.push_back(static_cast<std::size_t>(from));
    return found;
  }
  /// Returns the nodes that read output `i` of a node.
  Subgraph readers(const millrace_node& node, std::size_t i) const {
    Subgraph found;
    if (i >= node.output_count || node.outputs[i] < 0) return found;
    for (std::size_t n = 0; n < graph_.node_count; ++n) {
      const millrace_node& reader = graph_.nodes[n];
      if (std::find(reader.inputs, reader.inputs + reader.input_count, node.outputs[i]) !=
          reader.inputs + reader.input_count)
        found.nodes.push_back(n);
    }
    return found;
  }

  /// Returns a subgraph of one node for each node that `matches` and that no earlier plugin has selected.
  std::vector<Subgraph> filter(const std::function<bool(const millrace_node&)>& matches) const {
    std::vector<Subgraph> found;
    for (std::size_t i = 0; i < graph_.node_count; ++i)
      if (graph_.nodes[i].is_taken == 0 && matches(graph_.nodes[i]))
        found.push_back({{i}, {}, "card", {}, {}});
    return found;
  }
  std::vector<Subgraph> filter_by_name(const std::vector<std::string>& names) const {
    return filter([&](const millrace_node& n) {
      return std::find(names.begin(), names.end(), std::string(n.name)) != names.end();
    });
  }
  /// Returns the nodes with this operator. `type` is written like TemplateNode::type.
  std::vector<Subgraph> filter_by_type(const std::string& type) const {
    return filter([&](const millrace_node& n) { return is(n, type); });
  }

  /// Returns the subgraphs that match the template `nodes`. In a template, each node comes after its operands, and each
  /// node except the last is an operand of a later node. The subgraphs do not overlap: a node that several matches
  /// contain belongs to the first match.
  std::vector<Subgraph> filter_by_template(const std::vector<TemplateNode>& nodes) const {
    std::vector<Subgraph> found;
    if (nodes.empty()) return found;
    std::vector<bool> used(graph_.node_count, false);
    for (std::size_t i = 0; i < graph_.node_count; ++i) {
      std::vector<std::ptrdiff_t> places(nodes.size(), -1);
      if (!fits(nodes, nodes.size() - 1, i, used, places)) continue;
      Subgraph subgraph;
      for (const std::ptrdiff_t place : places) {
        if (place < 0) continue;
        used[static_cast<std::size_t>(place)] = true;
        subgraph.nodes.push_back(static_cast<std::size_t>(place));
      }
      std::sort(subgraph.nodes.begin(), subgraph.nodes.end());
      found.push_back(std::move(subgraph));
    }
    return found;
  }

 private:
  static bool is(const millrace_node& node, const std::string& type) {
    const std::string domain = node.domain;
    const std::string full = domain.empty() ? node.type : domain + ":" + node.type;
    return type == "*" || type == full;
  }

  /// Whether node `i` of the graph can be node `t` of the template. If so, sets the places of `t` and its operands.
  bool fits(const std::vector<TemplateNode>& nodes, std::size_t t, std::size_t i,
            const std::vector<bool>& used, std::vector<std::ptrdiff_t>& places) const {
    const auto here = static_cast<std::ptrdiff_t>(i);
    if (places[t] >= 0) return places[t] == here;
    const millrace_node& node = graph_.nodes[i];
    if (used[i] || node.is_taken != 0 || !is(node, nodes[t].type)) return false;
    if (std::find(places.begin(), places.end(), here) != places.end()) return false;
    const std::vector<std::ptrdiff_t> before = places;
    places[t] = here;
    for (std::size_t k = 0; k < nodes[t].operands.size(); ++k) {
      const int operand = nodes[t].operands[k];
      if (operand == TemplateNode::kAny) continue;
      const std::int64_t value = k < node.input_count ? node.inputs[k] : -1;
      const std::ptrdiff_t from = value < 0 ? -1 : producer_[static_cast<std::size_t>(value)];
      if (from < 0 ||
          !fits(nodes, static_cast<std::size_t>(operand), static_cast<std::size_t>(from), used, places)) {
        places = before;
        return false;
      }
    }
    return true;
  }

  const millrace_graph& graph_;
  std::vector<std::ptrdiff_t> producer_;  // the node that produces each value, or -1
};

}  // namespace millrace::plugin
