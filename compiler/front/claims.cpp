#include "compiler/front/claims.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/text.hpp"

namespace millrace::compiler {
namespace {

namespace json = boost::json;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

constexpr std::size_t kMostConstantElements =
    65536;                              // of a constant: MILLRACE_MOST_CONSTANT_ELEMENTS in millrace_plugin.h
constexpr std::size_t kMostPorts = 16;  // kernels::validate() checks it
constexpr std::size_t kMostFindings = 10;

const char* kind_of(const graph::Type& type) {
  using Kind = graph::Type::Kind;
  if (type.kind == Kind::kFloat) return "float";
  if (type.kind == Kind::kBipolar) return "bipolar";
  return type.kind == Kind::kSigned ? "signed" : "unsigned";
}

template <class T>
json::array numbers(const std::vector<T>& values) {
  json::array out;
  for (const T v : values) out.emplace_back(v);
  return out;
}

json::array ids(const std::vector<ValueId>& values) {
  json::array out;
  for (const ValueId v : values) out.emplace_back(v == kNoValue ? std::int64_t{-1} : std::int64_t{v});
  return out;
}

json::object described(const graph::Value& value) {
  json::object out = {{"name", value.name},
                      {"kind", kind_of(value.type)},
                      {"bits", value.type.bits},
                      {"shape", numbers(value.shape)},
                      {"constant", value.constant != nullptr}};
  if (value.constant == nullptr || value.constant->size() > kMostConstantElements) return out;
  const auto& floats = value.constant->floats;
  if (!std::all_of(floats.begin(), floats.end(), [](float f) { return std::isfinite(f); })) return out;
  if (value.type.is_float())
    out["reals"] = numbers(floats);
  else
    out["integers"] = numbers(value.constant->integers);
  return out;
}

json::object described(const std::string& name, const graph::Attribute& attribute) {
  json::object out = {{"name", name}};
  std::visit(
      [&out](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>)
          out["text"] = is_utf8(held) ? held : "";
        else if constexpr (std::is_same_v<Held, std::int64_t>)
          out["integers"] = json::array{held};
        else if constexpr (std::is_same_v<Held, float>)
          out["reals"] = json::array{held};
        else if constexpr (std::is_same_v<Held, std::vector<float>>)
          out["reals"] = numbers(held);
        else
          out["integers"] = numbers(held);
      },
      attribute);
  return out;
}

std::string label(const Node& node) {
  return operation_name(node.operation) + " '" + node.name + "'";
}

/// Makes one node of a claim.
class Merging {
 public:
  Merging(const Graph& graph, const graph::Uses& uses, const Claim& claim)
      : graph_(graph), uses_(uses), claim_(claim), inside_(claim.nodes.begin(), claim.nodes.end()) {}

  /// Returns the merged node, or nothing if findings() says why there is none.
  std::optional<Node> run() {
    std::vector<std::string> sources;
    for (const std::size_t i : claim_.nodes) {
      const Node& node = graph_.nodes[i];
      for (const ValueId v : node.outputs)
        if (v != kNoValue) produced_.insert(v);
      sources = graph::join_sources(sources, node.sources);
    }
    for (const std::size_t i : claim_.nodes) add_ports(graph_.nodes[i]);
    if (inputs_.empty())
      find("has no input that depends on the model's input; the plugin must select other nodes");
    if (outputs_.empty()) find("has no output that other nodes read; the plugin must select other nodes");
    if (inputs_.size() > kMostPorts || outputs_.size() > kMostPorts)
      find("has " + std::to_string(inputs_.size()) + " inputs and " + std::to_string(outputs_.size()) +
           " outputs; at most " + std::to_string(kMostPorts) + " are possible");
    check_between();
    if (!findings_.empty()) return std::nullopt;
    Node merged;
    merged.name = claim_.name;
    merged.operation = graph::PluginOperator{claim_.op};
    merged.inputs = inputs_;
    merged.outputs = outputs_;
    merged.sources = std::move(sources);
    return merged;
  }

  /// Returns what is wrong with the claim.
  const std::vector<std::string>& findings() const { return findings_; }
  /// The nodes that stay for other readers.
  const std::set<std::size_t>& kept() const { return kept_; }

 private:
  void find(const std::string& what) { findings_.push_back("subgraph '" + claim_.name + "' " + what); }

  bool is_read_outside(ValueId v) const {
    const auto& readers = uses_.readers[v];
    return uses_.is_output[v] || std::any_of(readers.begin(), readers.end(),
                                             [this](std::size_t r) { return !inside_.contains(r); });
  }

  bool is_integer(ValueId v) const {
    const graph::Type& type = graph_.value(v).type;
    return type.is_integer() && type.bits <= 32;
  }

  void add_ports(const Node& node) {
    for (const ValueId v : node.inputs) {
      if (v == kNoValue || produced_.contains(v) || graph_.value(v).constant != nullptr) continue;
      if (std::find(inputs_.begin(), inputs_.end(), v) != inputs_.end()) continue;
      if (!is_integer(v))
        find("reads '" + graph_.value(v).name + "' in " + label(node) + ", which is " +
             to_string(graph_.value(v).type) + "; begin the subgraph with DequantizeLinear");
      inputs_.push_back(v);
    }
    for (const ValueId v : node.outputs) {
      if (v == kNoValue || !is_read_outside(v)) continue;
      if (graph::is_onnx(node, "DequantizeLinear") && !uses_.is_output[v] && produced_by_others(node)) {
        kept_.insert(static_cast<std::size_t>(uses_.producer[v]));
        continue;
      }
      if (!is_integer(v))
        find("gives '" + graph_.value(v).name + "' of " + label(node) + " to other nodes, which is " +
             to_string(graph_.value(v).type) + "; end the subgraph with QuantizeLinear");
      outputs_.push_back(v);
    }
  }

  /// Whether `node` reads nothing that a node of the claim (the nodes that one plugin takes over) produces. If so, `node`
  /// need not become a part of the claim.
  bool produced_by_others(const Node& node) const {
    return std::none_of(node.inputs.begin(), node.inputs.end(),
                        [this](ValueId v) { return v != kNoValue && produced_.contains(v); });
  }

  /// Finds a node outside of the claim that reads a result of the claim and on which the claim depends.
  void check_between() {
    std::set<ValueId> depends(outputs_.begin(), outputs_.end());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                     [&depends](ValueId v) { return depends.contains(v); });
      if (!inside_.contains(i) && reads) depends.insert(node.outputs.begin(), node.outputs.end());
    }
    for (const ValueId v : inputs_)
      if (depends.contains(v) && uses_.producer[v] >= 0)
        find("reads '" + graph_.value(v).name + "' of " +
             label(graph_.nodes[static_cast<std::size_t>(uses_.producer[v])]) +
             ", a node that depends on a result of the same subgraph; add this node to the subgraph");
  }

  const Graph& graph_;
  const graph::Uses& uses_;
  const Claim& claim_;
  std::set<std::size_t> inside_, kept_;
  std::set<ValueId> produced_;
  std::vector<ValueId> inputs_, outputs_;
  std::vector<std::string> findings_;
};

/// Notes scale and zero point of a result that a QuantizeLinear with constant operands gives.
void note_quantiser(Graph& graph, const Node& node, ValueId output) {
  if (!graph::is_onnx(node, "QuantizeLinear")) return;
  const graph::Constant* scale = graph::constant_input(graph, node, 1);
  const graph::Constant* zero = graph::constant_input(graph, node, 2);
  if (scale == nullptr || scale->floats.empty() || (graph::has_input(node, 2) && zero == nullptr)) return;
  graph::note_meaning(graph.value(output), scale->floats,
                      zero == nullptr ? std::vector<std::int64_t>{0} : zero->integers);
}

}  // namespace

std::string describe_graph(const Graph& graph, const std::vector<bool>& taken) {
  json::array values, nodes;
  for (const graph::Value& value : graph.values) values.push_back(described(value));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    json::object one = {{"name", node.name}, {"inputs", ids(node.inputs)}, {"outputs", ids(node.outputs)}};
    one["taken"] = taken[i];
    one["domain"] = "";
    one["type"] = operation_name(node.operation);
    auto& attributes = one["attributes"].emplace_array();
    if (const graph::OnnxOperator* op = graph::onnx_of(node)) {
      one["domain"] = op->domain;
      one["type"] = op->type;
      for (const auto& [name, attribute] : op->attributes)
        if (is_utf8(name)) attributes.push_back(described(name, attribute));
    }
    nodes.push_back(std::move(one));
  }
  return json::serialize(json::object{{"name", graph.name},
                                      {"values", std::move(values)},
                                      {"nodes", std::move(nodes)},
                                      {"inputs", ids(graph.inputs)},
                                      {"outputs", ids(graph.outputs)}});
}

Status apply_claims(Graph& graph, const std::vector<Claim>& claims) {
  if (claims.empty()) return {};
  const graph::Uses uses(graph);
  std::vector<std::string> findings;
  std::map<std::size_t, Node> merged;  // by the index of the claim's last node
  std::set<std::size_t> gone;
  for (const Claim& claim : claims) {
    Merging merging(graph, uses, claim);
    auto node = merging.run();
    for (const std::string& finding : merging.findings())
      findings.push_back("plugin '" + claim.op.plugin + "': " + finding);
    if (!node) continue;
    for (const ValueId v : node->outputs)
      note_quantiser(graph, graph.nodes[static_cast<std::size_t>(uses.producer[v])], v);
    for (const std::size_t i : claim.nodes)
      if (!merging.kept().contains(i)) gone.insert(i);
    merged.emplace(claim.nodes.back(), std::move(*node));
  }
  if (!findings.empty()) {
    std::string text;
    for (std::size_t i = 0; i < std::min(findings.size(), kMostFindings); ++i)
      text += (i == 0 ? "" : "\n") + printable(findings[i]);
    const std::size_t more = findings.size() - std::min(findings.size(), kMostFindings);
    if (more > 0) text += "\nand " + std::to_string(more) + " more";
    return Error(ErrorCode::kInvalidInput, text);
  }
  graph::Names names;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!gone.contains(i)) names.take(graph.nodes[i].name);
  for (auto& [last, node] : merged) node.name = names.unique(node.name);
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!gone.contains(i)) nodes.push_back(std::move(graph.nodes[i]));
    if (const auto found = merged.find(i); found != merged.end()) nodes.push_back(std::move(found->second));
  }
  graph.nodes = std::move(nodes);
  if (const Node* node = graph::sort_nodes(graph))
    return Error(ErrorCode::kInvalidInput,
                 "the subgraphs that plugins selected depend on each other in a cycle, which contains " +
                     label(*node) + "; select fewer nodes");
  return {};
}

}  // namespace millrace::compiler
