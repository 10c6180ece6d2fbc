// Merges element-wise nodes with each other, and with the sums before them.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;
using graph::Combine;
using graph::Elementwise;
using graph::pick;
using graph::SumPool;

/// Returns for each value whether it is shared: it is a model output, or has several readers, or its only reader is an
/// element-wise node whose float result is shared.
std::vector<bool> shared_values(const Graph& graph, const graph::Uses& uses) {
  std::vector<bool> shared(graph.values.size(), true);
  for (auto n = graph.nodes.rbegin(); n != graph.nodes.rend(); ++n)
    for (const ValueId v : n->outputs) {
      if (v == kNoValue || uses.is_output[v] || uses.readers[v].size() != 1) continue;
      const Node& reader = graph.nodes[uses.readers[v][0]];
      shared[v] = std::holds_alternative<Elementwise>(reader.operation) &&
                  graph.value(reader.outputs[0]).type.is_float() && shared[reader.outputs[0]];
    }
  return shared;
}

bool may_merge(const Graph& graph, const std::vector<bool>& shared, const Node& first, const Node& second) {
  const ValueId between = first.outputs[0];
  // The quantiser of a model input runs on the host, so it stays a separate node.
  if (graph.value(first.inputs[0]).type.is_float() && graph.value(between).type.is_integer()) return false;
  // A shared float result does not prevent merging, because each reader can compute it again. An integer result keeps
  // its own node if it is shared, or if the second node converts it to a float on the host.
  const bool stays = shared[between] || graph.value(second.outputs[0]).type.is_float();
  if (graph.value(between).type.is_integer() && stays) return false;
  const auto& a = std::get<Elementwise>(first.operation);
  const auto& b = std::get<Elementwise>(second.operation);
  return a.chain.channels() == 1 || b.chain.channels() == 1 || a.axis == b.axis;
}

/// Merges the producer of `n`'s input into `n`. If only `n` reads the producer's result, moves the producer's steps and
/// sources and sets `absorbed` of the producer. Copies would need memory that grows with the square of a chain's length.
bool merge_with_producer(Graph& graph, const graph::Uses& uses, const std::vector<bool>& shared, Node& n,
                         std::vector<bool>& absorbed) {
  auto* e = std::get_if<Elementwise>(&n.operation);
  const ValueId between = n.inputs[0];
  const std::int64_t index = e == nullptr ? -1 : uses.producer[between];
  if (index < 0) return false;
  Node& before = graph.nodes[static_cast<std::size_t>(index)];
  auto* first = std::get_if<Elementwise>(&before.operation);
  if (first == nullptr || absorbed[static_cast<std::size_t>(index)] || !may_merge(graph, shared, before, n))
    return false;
  e->axis = first->chain.channels() > 1 ? first->axis : e->axis;
  n.inputs[0] = before.inputs[0];
  const bool is_private = uses.readers[between].size() == 1 && !uses.is_output[between];
  absorbed[static_cast<std::size_t>(index)] = is_private;
  std::vector<Step> steps = is_private ? std::move(first->chain.steps) : first->chain.steps;
  std::move(e->chain.steps.begin(), e->chain.steps.end(), std::back_inserter(steps));
  e->chain.steps = std::move(steps);
  std::vector<std::string> sources = is_private ? std::move(before.sources) : before.sources;
  for (std::string& source : n.sources)
    if (std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(std::move(source));
  n.sources = std::move(sources);
  return true;
}

bool is_identity(const Graph& graph, const Node& n) {
  const auto& e = std::get<Elementwise>(n.operation);
  const Type type = graph.value(n.inputs[0]).type;
  if (type != graph.value(n.outputs[0]).type || !type.is_integer()) return false;
  if (type.bits > 16) return e.chain.steps.empty();
  for (std::size_t c = 0; c < e.chain.channels(); ++c)
    for (std::int64_t x = type.lowest(); x <= type.highest(); ++x)
      if (e.chain.evaluate(x, c) != x) return false;
  return true;
}

/// Moves integer addends from the start of the chain (the functions behind a sum) to the sum's bias.
void take_integer_bias(Accumulate& a, Chain& chain) {
  while (!chain.steps.empty() && chain.steps[0].kind == Step::Kind::kAddInteger) {
    a.bias.resize(static_cast<std::size_t>(a.out_channels), 0);
    for (std::size_t c = 0; c < a.bias.size(); ++c) a.bias[c] += pick(chain.steps[0].integers, c);
    chain.steps.erase(chain.steps.begin());
  }
}

/// If the chain (the functions behind a sum) begins by multiplying the accumulator, sets `scale` to the factors.
/// Returns how many steps this multiplication takes, 0 if there is none.
std::size_t leading_scale(const Chain& chain, std::vector<float>& scale) {
  using K = Step::Kind;
  if (chain.steps.empty()) return 0;
  if (chain.steps[0].kind == K::kDequantise && chain.steps[0].integers == std::vector<std::int64_t>{0}) {
    scale = chain.steps[0].floats;
    return 1;
  }
  if (chain.steps[0].kind != K::kToFloat) return 0;
  if (chain.steps.size() < 2 || chain.steps[1].kind != K::kMultiply) return 0;
  scale = chain.steps[1].floats;
  return 2;
}

/// If a float bias follows a scaled integer sum, rounds it into the sum's integer bias, so that the host only scales.
void take_float_bias(Graph& graph, const Node& n, Accumulate& a, Chain& chain) {
  std::vector<float> scale;
  const std::size_t at = leading_scale(chain, scale);
  if (at == 0 || chain.steps.size() != at + 1 || chain.steps[at].kind != Step::Kind::kAdd) return;
  std::vector<std::int64_t> bias = a.bias;
  bias.resize(static_cast<std::size_t>(a.out_channels), 0);
  double worst = 0;
  for (std::size_t c = 0; c < bias.size(); ++c) {
    const double exact =
        static_cast<double>(pick(chain.steps[at].floats, c)) / static_cast<double>(pick(scale, c));
    if (!(std::abs(exact) < 2147483647.0)) return;
    bias[c] += static_cast<std::int64_t>(std::nearbyint(exact));
    worst = std::max(worst, std::abs(exact - std::nearbyint(exact)));
  }
  a.bias = std::move(bias);
  chain.steps.pop_back();
  note_rounded_bias(graph, n, worst);
}

/// If a Relu follows a scaled integer sum, applies it before the scaling: max(acc * scale, 0) = max(acc, 0) * scale.
void take_relu(Accumulate& a, Chain& chain) {
  std::vector<float> scale;
  const std::size_t at = leading_scale(chain, scale);
  if (at == 0 || chain.steps.size() != at + 1 || chain.steps[at].kind != Step::Kind::kRelu) return;
  for (const float s : scale)
    if (!(s > 0)) return;
  a.chain = {{Step::clamp_integer(0, std::numeric_limits<std::int32_t>::max())}};
  chain.steps.pop_back();
}

/// Returns the only reader of `n`'s result if the reader is element-wise, otherwise null.
Node* only_reader(Graph& graph, const graph::Uses& uses, const Node& n) {
  const ValueId v = n.outputs[0];
  if (uses.readers[v].size() != 1 || uses.is_output[v]) return nullptr;
  Node& reader = graph.nodes[uses.readers[v][0]];
  return std::holds_alternative<Elementwise>(reader.operation) ? &reader : nullptr;
}

bool along_channels(const Elementwise& e) {
  return e.chain.channels() == 1 || e.axis == 1;
}

/// Makes `n` produce the result of `reader`, whose computation `n` has absorbed. Removes the outputs of `reader`.
void absorb(Node& n, Node& reader) {
  n.outputs = reader.outputs;
  n.sources = join_sources(n.sources, reader.sources);
  reader.outputs.clear();
}

void fuse(Graph& graph, Node& n, Node& reader) {
  auto& e = std::get<Elementwise>(reader.operation);
  const bool to_integer = graph.value(reader.outputs[0]).type.is_integer();
  if (auto* c = std::get_if<Combine>(&n.operation);
      c != nullptr && e.chain.channels() == 1 && (to_integer || graph.value(n.outputs[0]).type.is_float())) {
    c->tail = c->tail.then(e.chain);
    absorb(n, reader);
  } else if (auto* s = std::get_if<SumPool>(&n.operation);
             s != nullptr && s->chain.steps.empty() && along_channels(e) && to_integer) {
    s->chain = e.chain;
    absorb(n, reader);
  } else if (auto* a = std::get_if<Accumulate>(&n.operation);
             a != nullptr && a->chain.steps.empty() && along_channels(e)) {
    take_integer_bias(*a, e.chain);
    if (to_integer) {
      a->chain = e.chain;
      absorb(n, reader);
    } else {
      take_float_bias(graph, n, *a, e.chain);
      take_relu(*a, e.chain);
    }
  }
}

}  // namespace

/// Merges consecutive element-wise nodes, then removes nodes that leave integers unchanged. A dequantiser and a
/// quantiser with equal parameters disappear; with different parameters they become one change of scale.
Result<Graph> merge_elementwise(Graph graph) {
  const graph::Uses uses(graph);
  const std::vector<bool> shared = shared_values(graph, uses);
  std::vector<bool> absorbed(graph.nodes.size());
  // Visit the nodes in order, so that a node's producer has already been merged with the producers before it.
  for (Node& n : graph.nodes) {
    while (merge_with_producer(graph, uses, shared, n, absorbed)) {
    }
  }
  Replacements replacements(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& n = graph.nodes[i];
    auto* e = std::get_if<Elementwise>(&n.operation);
    if (e == nullptr || absorbed[i]) continue;
    e->chain = e->chain.contracted();
    const bool to_input = uses.is_output[n.outputs[0]] && uses.producer[replacements.of(n.inputs[0])] < 0;
    if (!to_input && is_identity(graph, n)) replacements.replace(graph, n.outputs[0], n.inputs[0]);
  }
  replacements.apply(graph);
  return remove_dead(std::move(graph));
}

/// Merges the element-wise steps after a sum into the sum: bias, factors, Relu, Clip and requantisation.
Result<Graph> fuse_requantise(Graph graph) {
  const graph::Uses uses(graph);
  for (Node& n : graph.nodes) {
    if (n.outputs.empty()) continue;
    if (Node* reader = only_reader(graph, uses, n); reader != nullptr) fuse(graph, n, *reader);
  }
  std::erase_if(graph.nodes, [](const Node& n) { return n.outputs.empty(); });
  // A node that absorbed its reader now produces the reader's value. Nodes between this node and its former reader may
  // read this value, so sort again.
  if (graph::sort_nodes(graph) != nullptr) return Error(ErrorCode::kInternal, "fuse_requantise made a cycle");
  return graph;
}

}  // namespace millrace::compiler::passes
