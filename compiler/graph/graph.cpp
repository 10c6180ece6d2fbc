#include "compiler/graph/graph.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>

#include "runtime/base/text.hpp"

namespace millrace::compiler::graph {

std::int64_t Type::lowest() const {
  if (kind == Kind::kBipolar) return -1;
  if (kind != Kind::kSigned || bits == 0) return 0;
  return bits >= 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (bits - 1));
}

std::int64_t Type::highest() const {
  if (kind == Kind::kBool || kind == Kind::kBipolar) return 1;
  const int magnitude = kind == Kind::kSigned ? bits - 1 : bits;
  return magnitude >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << magnitude) - 1;
}

Type Type::holding(std::int64_t lowest, std::int64_t highest) {
  int bits = 1;
  while (bits < 64 && (lowest < integer(bits).lowest() || highest > integer(bits).highest())) ++bits;
  return integer(bits);
}

std::string to_string(Type type) {
  static constexpr const char* kNames[] = {"float", "int", "uint", "bool",
                                           "bipolar"};  // in the order of Type::Kind
  const std::string name = kNames[static_cast<std::size_t>(type.kind)];
  const bool has_bits = type.kind != Type::Kind::kBool && type.kind != Type::Kind::kBipolar;
  return has_bits ? name + std::to_string(type.bits) : name;
}

kernels::ElementType element_type(Type type) {
  using Kind = kernels::ElementType::Kind;
  if (type.is_float()) return {Kind::kFloat32, 32};
  if (type.kind == Type::Kind::kBipolar) return {Kind::kBipolar, 1};
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

const char* to_string(Combine::Kind kind) {
  static constexpr const char* kNames[] = {"add", "subtract", "multiply", "divide", "minimum", "maximum"};
  return kNames[static_cast<std::size_t>(kind)];
}

float combined(Combine::Kind kind, float x, float y) {
  switch (kind) {
    case Combine::Kind::kAdd:
      return x + y;
    case Combine::Kind::kSubtract:
      return x - y;
    case Combine::Kind::kMultiply:
      return x * y;
    case Combine::Kind::kDivide:
      return x / y;
    case Combine::Kind::kMinimum:
      return std::min(x, y);
    case Combine::Kind::kMaximum:
      return std::max(x, y);
  }
  return 0;
}

std::string operation_name(const Operation& operation) {
  static constexpr const char* kNames[] = {
      "ONNX operator", "accumulate", "elementwise", "max_pool", "sum_pool", "combine", "move",
      "select",        "concat",     "softmax",     "host",     "plugin"};  // in the order of Operation
  static_assert(std::size(kNames) == std::variant_size_v<Operation>);
  if (const auto* host = std::get_if<HostOperator>(&operation)) return host->op.type;
  const auto* onnx = std::get_if<OnnxOperator>(&operation);
  if (onnx == nullptr) return kNames[operation.index()];
  return onnx->domain.empty() ? onnx->type : onnx->domain + "." + onnx->type;
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
  // `ready` is an ordered set, so nodes stay in their original order as far as dependencies allow.
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
    // The graph has a cycle. Every node that still misses an input has a producer that also misses an input. Walk from
    // node to producer as many times as there are nodes: the walk then ends on a cycle.
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

const OnnxOperator* onnx_of(const Node& node) {
  return std::get_if<OnnxOperator>(&node.operation);
}

bool is_onnx(const Node& node, const char* type) {
  const OnnxOperator* op = onnx_of(node);
  return op != nullptr && op->type == type;
}

bool has_input(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

const Constant* constant_input(const Graph& graph, const Node& node, std::size_t i) {
  return has_input(node, i) ? graph.value(node.inputs[i]).constant.get() : nullptr;
}

const Node* producer_of(const Graph& graph, const Uses& uses, ValueId value) {
  const std::int64_t p = uses.producer[value];
  return p < 0 ? nullptr : &graph.nodes[static_cast<std::size_t>(p)];
}

std::optional<std::vector<float>> known_floats(const Graph& graph, const Uses& uses, ValueId id) {
  const Value& v = graph.value(id);
  if (v.constant != nullptr && v.type.is_float()) return v.constant->floats;
  const Node* n = producer_of(graph, uses, id);
  if (n == nullptr || !is_onnx(*n, "DequantizeLinear")) return std::nullopt;
  const Constant* q = constant_input(graph, *n, 0);
  const Constant* scale = constant_input(graph, *n, 1);
  const Constant* zero = constant_input(graph, *n, 2);
  if (q == nullptr || scale == nullptr || (has_input(*n, 2) && zero == nullptr)) return std::nullopt;
  AlongAxis channel;  // import has checked that the scales run along this axis
  if (scale->size() > 1) channel = {v.shape, *axis_in(onnx_of(*n)->integer("axis", 1), v.shape.size())};
  std::vector<float> result;
  for (std::size_t i = 0; i < q->integers.size(); ++i) {
    const std::size_t c = channel.index(i);
    const std::int64_t z = zero == nullptr ? 0 : zero->integers[zero->integers.size() == 1 ? 0 : c];
    const Chain one{{Step::dequantise({scale->floats[c]}, z)}};
    result.push_back(one.evaluate(Number{false, q->integers[i], 0}, 0).real);
  }
  return result;
}

void refuse(Graph& graph, Node& node, const std::string& reason) {
  node.refused = true;
  graph.refusals.push_back({operation_name(node.operation) + " '" + node.name + "'", node.sources, reason});
}

Error refusal_error(const Graph& graph) {
  constexpr std::size_t kMostListed = 10;
  const std::size_t count = graph.refusals.size();
  std::string text = std::to_string(count) + (count == 1 ? " node is" : " nodes are") + " not supported:";
  for (std::size_t i = 0; i < std::min(count, kMostListed); ++i)
    text += "\n  " + printable(graph.refusals[i].node + ": " + graph.refusals[i].reason);
  const std::size_t unlisted = count - std::min(count, kMostListed);
  if (unlisted > 0) text += "\n  and " + std::to_string(unlisted) + " more";
  return Error(ErrorCode::kUnsupported,
               text + "\n`millrace coverage MODEL` shows every node and what to change");
}

Node make_node(std::string name, Operation operation, std::vector<ValueId> inputs, ValueId output,
               std::vector<std::string> sources) {
  return {std::move(name), std::move(operation), std::move(inputs), {output}, std::move(sources)};
}

std::vector<std::string> join_sources(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> result = a;
  for (const std::string& s : b)
    if (std::find(result.begin(), result.end(), s) == result.end()) result.push_back(s);
  return result;
}

void note_meaning(Value& value, const std::vector<float>& scale,
                  const std::vector<std::int64_t>& zero_point) {
  value.scale = scale;
  value.zero_point = zero_point.size() == 1 ? static_cast<std::int32_t>(zero_point[0]) : 0;
}

void copy_meaning(Graph& graph, ValueId from, ValueId to) {
  graph.value(to).scale = graph.value(from).scale;
  graph.value(to).zero_point = graph.value(from).zero_point;
}

void note_rounded_bias(Graph& graph, const Node& node, double accumulator_steps) {
  if (accumulator_steps <= 1e-3) return;
  graph.diagnostics.push_back({node.name,
                               "the bias is not a multiple of the input scale times the weight scale, "
                               "so the bias was rounded by up to " +
                                   std::to_string(accumulator_steps) + " of an accumulator step"});
}

}  // namespace millrace::compiler::graph
