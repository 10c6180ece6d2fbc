// The table entries of Where, of Equal, and of ArgMax, ArgMin and TopK, which the host computes. In ONNX, the indices
// that ArgMax, ArgMin and TopK give are INT64. kernels/host gives them as float32 numbers, and a conversion behind it
// makes them INT64.
#include "compiler/operators/choices.hpp"

#include "compiler/operators/elements.hpp"

namespace millrace::compiler::operators {
namespace {

/// Whether the node's result is indices. separate_outputs() replaces a TopK by two nodes and marks the node that gives
/// the indices.
bool gives_indices(const OnnxOperator& op) {
  return op.type != "TopK" || op.integer("indices", 0) != 0;
}

std::string infer_choice(Inference& c) {
  if (std::string why = need(c, 1); !why.empty()) return why;
  if (std::string why = infer_host(c); !why.empty()) return why;
  if (gives_indices(c.op)) c.type = Type::integer(64);
  return {};
}

Outcome lower_choice(Site& site) {
  if (site.constant(0) != nullptr)
    return "its data are constant; fold the node into a constant when you export the model";
  const Value result = site.result();
  ValueId floats = site.node.outputs[0];
  if (gives_indices(site.op))
    floats = site.graph.add_value(result.name + ".number", Type::float32(), result.shape);
  Node host = site.node;
  host.outputs = {floats};
  auto op = float_operator(site.graph, host);
  if (!op) return "all its operands except the data must be constants";
  site.graph.diagnostics.push_back(
      {site.node.name, op->type + " runs on the host: no hardware computes it", site.node.sources});
  site.emit(graph::HostOperator{std::move(*op)}, {site.node.inputs[0]}, floats);
  if (floats == site.node.outputs[0]) return {};
  const Step convert = Step::quantise({1.0F}, 0, result.type.lowest(), result.type.highest());
  site.emit(Elementwise{{{convert}}, -1}, {floats}, site.node.outputs[0], ".indices");
  return {};
}

std::string infer_where(Inference& c) {
  if (std::string why = need(c, 3); !why.empty()) return why;
  auto shape = broadcast(c.shape_of(0), c.shape_of(1));
  if (shape) shape = broadcast(*shape, c.shape_of(2));
  if (!shape || c.in(1).type != c.in(2).type)
    return "has operands of different types, or operands whose shapes do not broadcast";
  c.type = c.in(1).type;
  c.shape = *shape;
  return {};
}

std::optional<Constant> fold_where(const OnnxOperator&, const Inputs& in, const Value& output) {
  if (in.size() != 3 || in[1] == nullptr || in[2] == nullptr) return std::nullopt;
  const auto condition = broadcast_indices(in[0]->shape, output.shape);
  const std::vector<std::size_t> from[] = {broadcast_indices(in[1]->shape, output.shape),
                                           broadcast_indices(in[2]->shape, output.shape)};
  Constant c;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    const std::size_t side = in[0]->constant->integers[condition[i]] != 0 ? 0 : 1;
    const Constant& chosen = *in[side + 1]->constant;
    if (output.type.is_float())
      c.floats.push_back(chosen.floats[from[side][i]]);
    else
      c.integers.push_back(chosen.integers[from[side][i]]);
  }
  return c;
}

/// Equal is supported only where a graph computes shapes, because the compiler folds such nodes.
std::string infer_equal(Inference& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  const auto shape = broadcast(c.shape_of(0), c.shape_of(1));
  if (!shape || c.in(0).type != c.in(1).type)
    return "has operands of different types, or operands whose shapes do not broadcast";
  c.type = {Type::Kind::kBool, 8};
  c.shape = *shape;
  return {};
}

std::optional<Constant> fold_equal(const OnnxOperator&, const Inputs& in, const Value& output) {
  if (in.size() != 2 || in[1] == nullptr || in[0]->type.is_float()) return std::nullopt;
  const auto a = broadcast_indices(in[0]->shape, output.shape),
             b = broadcast_indices(in[1]->shape, output.shape);
  Constant c;
  for (std::size_t i = 0; i < a.size(); ++i)
    c.integers.push_back(in[0]->constant->integers[a[i]] == in[1]->constant->integers[b[i]] ? 1 : 0);
  return c;
}

/// Lowers Where if the condition and one of the two choices are constants. Each element of the other choice is
/// multiplied by 1 or 0; then 0 or the constant choice is added.
Outcome lower_where(Site& site) {
  const Constant* condition = site.constant(0);
  if (condition == nullptr) return "its condition depends on the data; it must be a constant";
  const Shape& result = site.result().shape;
  if (elements(result) > kMostElementsWithConstants)
    return "its result of " + to_string(result) + " has more than " +
           std::to_string(kMostElementsWithConstants) + " elements";
  for (const std::size_t side : {1U, 2U}) {
    const auto known = known_floats(site.graph, site.uses, site.node.inputs[side]);
    if (!known) continue;
    const auto chosen = broadcast_indices(site.in(0).shape, result);
    const auto from = broadcast_indices(site.in(side).shape, result);
    std::vector<float> factors, addends;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const bool takes_known = (condition->integers[chosen[i]] != 0) == (side == 1);
      factors.push_back(takes_known ? 0.0F : 1.0F);
      addends.push_back(takes_known ? (*known)[from[i]] : 0.0F);
    }
    const Chain chain{{Step::multiply(std::move(factors)), Step::add(std::move(addends))}};
    return give_each_element(site, chain, site.node.inputs[3 - side]);
  }
  return "no hardware chooses between two tensors that both depend on the model's input";
}

constexpr Operator choice(const char* type, const char* limits) {
  return {.type = type,
          .infer = infer_choice,
          .lower_elementwise = lower_choice,
          .hosted = true,
          .limits = limits};
}

constexpr char kExtreme[] =
    "the data are float32, or integers of at most 16 bits; the result is INT64; "
    "of several equal elements, the first one is selected";

constexpr Operator kChoices[] = {
    {.type = "Equal",
     .infer = infer_equal,
     .fold = fold_equal,
     .limits = "of integers, evaluated by the import"},
    choice("ArgMax", kExtreme),
    choice("ArgMin", kExtreme),
    choice("TopK",
           "the data are float32; K is known at compile time; the outputs are values, INT64 indices or both; "
           "equal elements keep their order"),
    {.type = "Where",
     .infer = infer_where,
     .fold = fold_where,
     .lower_elementwise = lower_where,
     .limits = "the condition is a constant; in hardware, one of the two choices is also a constant, "
               "and the result has at most 8,192 elements"}};

}  // namespace

std::string separate_top(const Node& node, const OnnxOperator& op, graph::Names& names,
                         std::vector<Node>& out) {
  if (node.outputs.size() > 2) return "has more than two outputs";
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == graph::kNoValue) continue;
    Node part = node;
    OnnxOperator own = op;
    if (i == 1) {
      own.attributes["indices"] = std::int64_t{1};
      part.name = names.unique(node.name + "_indices");
    }
    part.operation = std::move(own);
    part.outputs = {node.outputs[i]};
    out.push_back(std::move(part));
  }
  return {};
}

void convert_data_of_extreme(graph::Graph& graph, const Node& node, graph::Names& names,
                             std::vector<Node>& out) {
  constexpr int kExactBits = 24;      // float32 represents all integers of this width
  constexpr std::int64_t kFloat = 1;  // TensorProto.FLOAT
  out.push_back(node);
  if (!has_input(node, 0)) return;
  const Value data = graph.value(node.inputs[0]);
  if (!data.type.is_integer() || data.type.bits > kExactBits) return;
  const ValueId floats = graph.add_value(data.name + ".float", Type::float32(), data.shape);
  const OnnxOperator cast{kOnnx, "Cast", std::get<OnnxOperator>(node.operation).opset, {{"to", kFloat}}};
  out.front().inputs[0] = floats;
  out.insert(out.begin(), graph::make_node(names.unique(node.name + "_float"), cast, {node.inputs[0]}, floats,
                                           node.sources));
}

std::span<const Operator> choices() {
  return kChoices;
}

}  // namespace millrace::compiler::operators
