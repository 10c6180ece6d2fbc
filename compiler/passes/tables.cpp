// Finds functions of one integer of at most 8 bits that a model states in several branches, such as x * sigmoid(x), and
// replaces them by tables.
#include <algorithm>
#include <map>
#include <optional>

#include "compiler/passes/blocks.hpp"
#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Combine;
using graph::Elementwise;
using graph::Number;

/// Whether a table may have an entry for each number of this type.
bool can_index(Type type) {
  return type.is_integer() && type.bits <= 8;
}

std::optional<Combine::Kind> kind_of(const Node& n) {
  static const std::map<std::string, Combine::Kind> kKinds = {
      {"Add", Combine::Kind::kAdd},    {"Sub", Combine::Kind::kSubtract}, {"Mul", Combine::Kind::kMultiply},
      {"Div", Combine::Kind::kDivide}, {"Min", Combine::Kind::kMinimum},  {"Max", Combine::Kind::kMaximum}};
  const OnnxOperator* op = n.refused || n.inputs.size() != 2 ? nullptr : onnx_of(n);
  const auto kind = op == nullptr || !op->domain.empty() ? kKinds.end() : kKinds.find(op->type);
  return kind == kKinds.end() ? std::nullopt : std::optional(kind->second);
}

/// The float nodes between one integer and a quantiser, all of which compute element by element.
class Cone {
 public:
  Cone(const Graph& graph, const graph::Uses& uses) : graph_(graph), uses_(uses) {}

  /// Adds the node that produces `v` and all nodes before it. Returns false if `v` is not a function of one small
  /// integer.
  bool add(ValueId v) {
    if (std::find(order_.begin(), order_.end(), v) != order_.end()) return true;
    const Node* n = producer_of(graph_, uses_, v);
    if (n == nullptr || order_.size() > kMostNodes) return false;
    const auto* e = std::get_if<Elementwise>(&n->operation);
    if (e != nullptr && e->chain.channels() != 1) return false;
    if (e != nullptr && graph_.value(n->inputs[0]).type.is_integer()) {
      if (root_ == kNoValue) root_ = n->inputs[0];
      if (root_ != n->inputs[0] || !can_index(graph_.value(root_).type)) return false;
    } else if (e != nullptr) {
      if (!add(n->inputs[0])) return false;
    } else {
      const bool joins = kind_of(*n) && graph_.value(n->inputs[0]).shape == graph_.value(n->inputs[1]).shape;
      if (!joins || !add(n->inputs[0]) || !add(n->inputs[1])) return false;
      ++joins_;
    }
    order_.push_back(v);
    return true;
  }

  /// Whether the nodes form more than a single chain. Excludes the sum or product of two dequantised values, because
  /// ONNX Runtime has a separate kernel for it, which lower_qdq() reproduces.
  bool is_wanted() const { return joins_ > 0 && (joins_ > 1 || order_.size() > 3 || !is_kernel()); }
  ValueId root() const { return root_; }

  /// Returns the number that the value `v` has if the integer from which `v` is computed is `x`.
  float evaluate(ValueId v, std::int64_t x) const {
    std::map<ValueId, float> known;
    for (const ValueId at : order_) {
      const Node& n = *producer_of(graph_, uses_, at);
      if (const auto* e = std::get_if<Elementwise>(&n.operation)) {
        const bool first = n.inputs[0] == root_;
        known[at] =
            e->chain.evaluate(first ? Number{false, x, 0} : Number{true, 0, known[n.inputs[0]]}, 0).real;
      } else {
        known[at] = graph::combined(*kind_of(n), known[n.inputs[0]], known[n.inputs[1]]);
      }
    }
    return known[v];
  }

  std::vector<std::string> sources() const {
    std::vector<std::string> names;
    for (const ValueId v : order_) names = join_sources(names, producer_of(graph_, uses_, v)->sources);
    return names;
  }

 private:
  static constexpr std::size_t kMostNodes = 64;

  bool is_kernel() const {
    const Node& join = *producer_of(graph_, uses_, order_.back());
    return kind_of(join) && std::all_of(join.inputs.begin(), join.inputs.end(), [this](ValueId v) {
             const auto& e = std::get<Elementwise>(producer_of(graph_, uses_, v)->operation);
             return e.chain.steps.size() == 1 && e.chain.steps[0].kind == Step::Kind::kDequantise;
           });
  }

  const Graph& graph_;
  const graph::Uses& uses_;
  std::vector<ValueId> order_;  // each value stands behind those that it is computed from
  ValueId root_ = kNoValue;
  std::size_t joins_ = 0;
};

Elementwise table(Type input, const std::function<std::int64_t(std::int64_t)>& function) {
  Step::Integers results;
  for (std::int64_t x = input.lowest(); x <= input.highest(); ++x) results.push_back(function(x));
  return {{{Step::look_up(input.lowest(), std::move(results))}}, -1};
}

/// An integer value, and the chain of functions that computes another value from it.
struct Origin {
  ValueId value = kNoValue;
  Chain chain;
};

/// Returns `v` and the small integers from which it is computed element by element.
std::vector<Origin> origins(const Graph& graph, const graph::Uses& uses, ValueId v) {
  std::vector<Origin> found = {{v, {}}};
  while (true) {
    const Node* n = producer_of(graph, uses, found.back().value);
    const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
    if (e == nullptr || e->chain.channels() != 1 || !can_index(graph.value(n->inputs[0]).type)) return found;
    found.push_back({n->inputs[0], e->chain.then(found.back().chain)});
  }
}

}  // namespace

Result<Graph> tabulate(Graph graph) {
  const graph::Uses uses(graph);
  for (Node& n : graph.nodes) {
    const auto* e = std::get_if<Elementwise>(&n.operation);
    const bool quantises = e != nullptr && graph.value(n.inputs[0]).type.is_float() &&
                           graph.value(n.outputs[0]).type.is_integer() && e->chain.channels() == 1;
    Cone cone(graph, uses);
    if (!quantises || !cone.add(n.inputs[0]) || !cone.is_wanted()) continue;
    const Chain quantise = e->chain;
    Elementwise made = table(graph.value(cone.root()).type, [&](std::int64_t x) {
      return quantise.evaluate(Number{true, 0, cone.evaluate(n.inputs[0], x)}, 0).integer;
    });
    n.sources = join_sources(cone.sources(), n.sources);
    n.inputs[0] = cone.root();
    n.operation = std::move(made);
  }
  return remove_dead(std::move(graph));
}

Result<Graph> join_branches(Graph graph) {
  // `uses` stays valid in this loop: the loop changes what nodes read, and only the producers in `uses` are needed.
  const graph::Uses uses(graph);
  for (Node& n : graph.nodes) {
    const auto* c = std::get_if<Combine>(&n.operation);
    if (c == nullptr || !graph.value(n.outputs[0]).type.is_integer()) continue;
    const std::vector<Origin> right = origins(graph, uses, n.inputs[1]);
    for (const Origin& a : origins(graph, uses, n.inputs[0])) {
      const auto b = std::find_if(right.begin(), right.end(),
                                  [&](const Origin& other) { return other.value == a.value; });
      if (b == right.end() || !can_index(graph.value(a.value).type)) continue;
      const Combine combine = *c;
      const PairFunction result = pair_function(combine, element_type(graph.value(n.inputs[1]).type));
      Elementwise made = table(graph.value(a.value).type, [&](std::int64_t x) {
        return result(a.chain.evaluate(x, 0), b->chain.evaluate(x, 0));
      });
      n.inputs = {a.value};
      n.operation = std::move(made);
      break;
    }
  }
  return remove_dead(std::move(graph));
}

}  // namespace millrace::compiler::passes
