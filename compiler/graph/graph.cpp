#include "compiler/graph/graph.hpp"

#include <algorithm>
#include <limits>
#include <set>

namespace millrace::compiler::graph {

std::int64_t Type::lowest() const {
  if (kind != Kind::kSigned || bits == 0) return 0;
  return bits >= 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (bits - 1));
}

std::int64_t Type::highest() const {
  if (kind == Kind::kBool) return 1;
  const int magnitude = kind == Kind::kSigned ? bits - 1 : bits;
  return magnitude >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << magnitude) - 1;
}

Type Type::holding(std::int64_t lowest, std::int64_t highest) {
  int bits = 1;
  while (bits < 64 && (lowest < integer(bits).lowest() || highest > integer(bits).highest())) ++bits;
  return integer(bits);
}

std::string to_string(Type type) {
  switch (type.kind) {
    case Type::Kind::kFloat:
      return "float" + std::to_string(type.bits);
    case Type::Kind::kSigned:
      return "int" + std::to_string(type.bits);
    case Type::Kind::kUnsigned:
      return "uint" + std::to_string(type.bits);
    case Type::Kind::kBool:
      return "bool";
  }
  return {};
}

kernels::ElementType element_type(Type type) {
  using Kind = kernels::ElementType::Kind;
  if (type.is_float()) return {Kind::kFloat32, 32};
  return {type.kind == Type::Kind::kUnsigned ? Kind::kUnsigned : Kind::kSigned, type.bits};
}

std::string datatype(Type type) {
  if (type.kind == Type::Kind::kBool) return "BOOL";
  if (type.is_float()) return "FP" + std::to_string(type.bits);
  if (type.bits != 8 && type.bits != 16 && type.bits != 32 && type.bits != 64) return {};
  return (type.kind == Type::Kind::kSigned ? "INT" : "UINT") + std::to_string(type.bits);
}

std::int64_t elements(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (const std::int64_t d : shape) text += (text.empty() ? "" : "x") + std::to_string(d);
  return text.empty() ? "scalar" : text;
}

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::vector<std::size_t> strided_indices(const Shape& shape, const std::vector<std::int64_t>& strides) {
  std::vector<std::size_t> result(static_cast<std::size_t>(elements(shape)));
  std::vector<std::int64_t> index(shape.size(), 0);
  std::int64_t at = 0;
  for (std::size_t& place : result) {
    place = static_cast<std::size_t>(at);
    for (std::size_t d = shape.size(); d-- > 0;) {
      at += strides[d];
      if (++index[d] < shape[d]) break;
      at -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return result;
}

std::optional<std::size_t> axis_in(std::int64_t axis, std::size_t rank) {
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return std::nullopt;
  return static_cast<std::size_t>(axis);
}

AlongAxis::AlongAxis(const Shape& shape, std::size_t axis)
    : inner(static_cast<std::size_t>(
          elements({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()}))),
      extent(static_cast<std::size_t>(shape[axis])) {}

std::string operation_name(const Operation& operation) {
  struct Namer {
    std::string operator()(const OnnxOperator& o) const {
      return o.domain.empty() ? o.type : o.domain + "." + o.type;
    }
    std::string operator()(const Accumulate&) const { return "accumulate"; }
    std::string operator()(const Elementwise&) const { return "elementwise"; }
    std::string operator()(const MaxPool&) const { return "max_pool"; }
    std::string operator()(const SumPool&) const { return "sum_pool"; }
    std::string operator()(const Combine&) const { return "combine"; }
    std::string operator()(const Move&) const { return "move"; }
    std::string operator()(const Concat&) const { return "concat"; }
    std::string operator()(const Softmax&) const { return "softmax"; }
  };
  return std::visit(Namer{}, operation);
}

std::string Names::unique(const std::string& wanted) {
  const auto [first, fresh] = next_.emplace(wanted, 1);
  if (fresh) return wanted;
  int number = first->second;
  std::string name;
  do {
    name = wanted + "." + std::to_string(number++);
  } while (next_.contains(name));
  next_[wanted] = number;
  next_.emplace(name, 1);
  return name;
}

ValueId Graph::add_value(std::string wanted, Type type, Shape shape) {
  for (; named_ < values.size(); ++named_) value_names_.take(values[named_].name);
  std::string unique = value_names_.unique(wanted);
  named_ = values.size() + 1;
  Value v;
  v.name = std::move(unique);
  v.type = type;
  v.shape = std::move(shape);
  values.push_back(std::move(v));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string wanted, Type type, Shape shape, Constant constant) {
  const ValueId id = add_value(std::move(wanted), type, std::move(shape));
  values[id].constant = std::make_shared<const Constant>(std::move(constant));
  return id;
}

Uses::Uses(const Graph& graph)
    : producer(graph.values.size(), -1), readers(graph.values.size()), is_output(graph.values.size(), false) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId v : graph.nodes[i].inputs)
      if (v != kNoValue) readers[v].push_back(i);
    for (const ValueId v : graph.nodes[i].outputs)
      if (v != kNoValue) producer[v] = static_cast<std::int64_t>(i);
  }
  for (const ValueId v : graph.outputs) is_output[v] = true;
}

const Node* sort_nodes(Graph& graph) {
  const Uses uses(graph);
  std::vector<std::size_t> missing(graph.nodes.size(), 0);
  // The set of ready nodes is ordered, so the result keeps the given order as far as dependencies allow.
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId v : graph.nodes[i].inputs)
      if (v != kNoValue && uses.producer[v] >= 0) ++missing[i];
    if (missing[i] == 0) ready.insert(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const std::size_t i = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(i);
    for (const ValueId v : graph.nodes[i].outputs) {
      if (v == kNoValue) continue;
      for (const std::size_t reader : uses.readers[v])
        if (--missing[reader] == 0) ready.insert(reader);
    }
  }
  if (order.size() != graph.nodes.size()) {
    // A node that still misses an input has a producer that does too. Going back as often as there are nodes ends
    // on a cycle.
    const auto is_stuck = [&](std::size_t i) { return missing[i] > 0; };
    std::size_t node = 0;
    while (!is_stuck(node)) ++node;
    for (std::size_t step = 0; step < graph.nodes.size(); ++step)
      for (const ValueId v : graph.nodes[node].inputs)
        if (v != kNoValue && uses.producer[v] >= 0 && is_stuck(static_cast<std::size_t>(uses.producer[v]))) {
          node = static_cast<std::size_t>(uses.producer[v]);
          break;
        }
    return &graph.nodes[node];
  }
  std::vector<Node> sorted;
  sorted.reserve(order.size());
  for (const std::size_t i : order) sorted.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(sorted);
  return nullptr;
}

void replace_value(Graph& graph, ValueId from, ValueId to) {
  for (Node& n : graph.nodes)
    for (ValueId& v : n.inputs)
      if (v == from) v = to;
  for (ValueId& v : graph.outputs)
    if (v == from) v = to;
}

}  // namespace millrace::compiler::graph
