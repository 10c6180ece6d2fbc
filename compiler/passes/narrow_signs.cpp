// Stores values that are -1 or +1 in one bit.
#include <algorithm>
#include <numeric>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

using graph::Accumulate;

/// Whether a node only moves, joins or compares elements, so that its inputs and its output have one type.
bool keeps_type(const Node& n) {
  return std::holds_alternative<graph::Move>(n.operation) ||
         std::holds_alternative<graph::Concat>(n.operation) ||
         std::holds_alternative<graph::MaxPool>(n.operation);
}

/// Whether a node is a layer whose step function has two results, -1 and +1.
bool gives_signs(const Node& n) {
  const auto* a = std::get_if<Accumulate>(&n.operation);
  if (a == nullptr || a->chain.steps.empty()) return false;
  const Step& last = a->chain.steps.back();
  return last.kind == Step::Kind::kThresholds && last.lowest == -1 && last.stride == 2 &&
         std::all_of(last.thresholds.begin(), last.thresholds.end(),
                     [](const auto& t) { return t.size() == 1; });
}

/// Whether a layer can read one-bit values, which mean -1 and +1. A layer with padding cannot, because the padding is
/// 0.
bool takes_signs(const Node& n) {
  const auto* a = std::get_if<Accumulate>(&n.operation);
  if (a == nullptr || a->input_zero != 0) return false;
  const kernels::Window& w = a->window;
  return w.pad_top + w.pad_left + w.pad_bottom + w.pad_right == 0;
}

/// Groups of values. All values of a group must have the same type.
class Groups {
 public:
  explicit Groups(std::size_t values) : first_(values) {
    std::iota(first_.begin(), first_.end(), std::size_t{0});
  }

  std::size_t of(std::size_t v) {
    while (first_[v] != v) v = first_[v] = first_[first_[v]];
    return v;
  }
  void join(std::size_t a, std::size_t b) { first_[of(a)] = of(b); }

 private:
  std::vector<std::size_t> first_;
};

}  // namespace

/// Gives values that are -1 or +1 the bipolar type if only layers without padding read them.
Result<Graph> narrow_signs(Graph graph) {
  Groups groups(graph.values.size());
  for (const Node& n : graph.nodes)
    for (const ValueId v : n.inputs)
      if (keeps_type(n)) groups.join(v, n.outputs[0]);
  std::vector<bool> made(graph.values.size(), false), wide(graph.values.size(), false);
  for (const Node& n : graph.nodes) {
    if (keeps_type(n)) continue;
    for (const ValueId v : n.outputs) (gives_signs(n) ? made : wide)[groups.of(v)] = true;
    for (const ValueId v : n.inputs)
      if (v != kNoValue && !takes_signs(n)) wide[groups.of(v)] = true;
  }
  for (const ValueId v : graph.inputs) wide[groups.of(v)] = true;
  for (const ValueId v : graph.outputs) wide[groups.of(v)] = true;
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (const std::size_t group = groups.of(v); made[group] && !wide[group])
      graph.values[v].type = Type::bipolar();
  return graph;
}

}  // namespace millrace::compiler::passes
