#include "compiler/front/whole_numbers.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "compiler/operators/operators.hpp"

namespace millrace::compiler {
namespace {

using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::OnnxOperator;
using graph::Type;
using graph::ValueId;

constexpr float kLargest = 32767;
constexpr std::int64_t kOpset = 13;

bool is_of_dialect(const Node& n) {
  const OnnxOperator* op = graph::onnx_of(n);
  const operators::Operator* row = operators::find(*op);
  return row != nullptr && row->rewrite != nullptr;
}

/// The integer type that FINN calls `name`. A bipolar number is stored in two bits.
std::optional<Type> type_named(const std::string& name) {
  if (name == "BIPOLAR") return Type::integer(2);
  if (name == "BINARY") return Type::natural(1);
  const bool is_unsigned = name.starts_with("UINT");
  if (!is_unsigned && !name.starts_with("INT")) return std::nullopt;
  const std::string digits = name.substr(is_unsigned ? 4 : 3);
  int bits = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (code != std::errc() || end != digits.data() + digits.size() || bits < 1 || bits > 16)
    return std::nullopt;
  return is_unsigned ? Type::natural(bits) : Type::integer(bits);
}

/// The integers of float weights that are all whole and small; otherwise nothing.
std::optional<graph::Constant> whole(const graph::Value& weights) {
  if (weights.constant == nullptr || !weights.type.is_float()) return std::nullopt;
  graph::Constant c;
  for (const float f : weights.constant->floats) {
    if (!(std::abs(f) <= kLargest) || f != std::nearbyint(f)) return std::nullopt;
    c.integers.push_back(static_cast<std::int64_t>(f));
  }
  return c;
}

class Adopter {
 public:
  Adopter(Graph& graph, graph::Names& names) : graph_(graph), names_(names) {}

  void take_weights(Node& n) {
    static const std::set<std::string> kProducts = {"Conv", "MatMul", "Gemm"};
    const OnnxOperator* op = graph::onnx_of(n);
    if (!kProducts.contains(op->type) || !op->domain.empty() || !graph::has_input(n, 1)) return;
    const graph::Value weights = graph_.value(n.inputs[1]);
    auto integers = whole(weights);
    if (!integers || integers->integers.empty()) return;
    const auto [low, high] = std::minmax_element(integers->integers.begin(), integers->integers.end());
    const Type type = Type::holding(*low, *high);
    const ValueId q =
        graph_.add_constant(weights.name + ".integers", type, weights.shape, std::move(*integers));
    n.inputs[1] = dequantise(q, type, weights.name, n.sources);
  }

  void take_input(ValueId input, Type type) {
    const std::string name = graph_.value(input).name;
    const std::vector<Node*> readers = readers_of(input);
    if (std::all_of(readers.begin(), readers.end(), [](const Node* n) { return is_of_dialect(*n); })) return;
    const ValueId q = add("QuantizeLinear", {input, one(), zero(type)}, name + ".integers", {});
    const ValueId floats = dequantise(q, type, name, {});
    for (Node* n : readers) std::replace(n->inputs.begin(), n->inputs.end(), input, floats);
  }

  std::vector<Node> added;

 private:
  std::vector<Node*> readers_of(ValueId v) {
    std::vector<Node*> readers;
    for (Node& n : graph_.nodes)
      if (std::find(n.inputs.begin(), n.inputs.end(), v) != n.inputs.end()) readers.push_back(&n);
    return readers;
  }

  ValueId one() { return graph_.add_constant("whole.scale", Type::float32(), {}, {{1.0F}, {}}); }
  ValueId zero(Type type) { return graph_.add_constant("whole.zero", type, {}, {{}, {0}}); }

  ValueId dequantise(ValueId q, Type type, const std::string& name, std::vector<std::string> sources) {
    return add("DequantizeLinear", {q, one(), zero(type)}, name + ".whole", std::move(sources));
  }

  ValueId add(const char* type, std::vector<ValueId> inputs, const std::string& name,
              std::vector<std::string> sources) {
    OnnxOperator op{"", type, kOpset, {}};
    op.written = true;
    const ValueId v = graph_.add_value(name, {}, {});
    added.push_back(
        graph::make_node(names_.unique(name), std::move(op), std::move(inputs), v, std::move(sources)));
    return v;
  }

  Graph& graph_;
  graph::Names& names_;
};

}  // namespace

void take_whole_numbers(Graph& graph, graph::Names& names, const std::map<std::string, std::string>& types) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_of_dialect)) return;
  Adopter adopter(graph, names);
  for (Node& n : graph.nodes) adopter.take_weights(n);
  for (const ValueId input : graph.inputs) {
    const auto found = types.find(graph.value(input).name);
    const auto type = found == types.end() ? std::nullopt : type_named(found->second);
    if (type && graph.value(input).type.is_float()) adopter.take_input(input, *type);
  }
  for (Node& n : adopter.added) graph.nodes.push_back(std::move(n));
}

}  // namespace millrace::compiler
