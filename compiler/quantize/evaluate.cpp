#include "compiler/quantize/evaluate.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/operators/operators.hpp"
#include "kernels/host/float_operator.hpp"

namespace millrace::compiler::quantize {
namespace {

using graph::Constant;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::OnnxOperator;
using graph::ValueId;

/// How one node is computed.
struct Computation {
  enum class Kind : std::uint8_t { kOperator, kQuantise, kDequantise, kCopy };
  Kind kind = Kind::kCopy;
  ValueId output = kNoValue;
  std::vector<ValueId> tensors;    // the inputs that are not part of `op`
  kernels::FloatOperator op;       // kOperator only
  std::vector<float> scale, zero;  // of a quantiser: one entry, or one for each index along the axis
  graph::AlongAxis channel;
  float lowest = 0, highest = 0;  // the range of the integers that a quantiser gives
};

/// Reads scale, zero point and axis of a quantiser. Returns what is wrong, or an empty text.
std::string read_quantiser(const Graph& graph, const Node& node, Computation& out) {
  const Constant* scale = graph::constant_input(graph, node, 1);
  const Constant* zero = graph::constant_input(graph, node, 2);
  if (scale == nullptr || (graph::has_input(node, 2) && zero == nullptr))
    return "the scale and zero point of the node must be constants";
  if (std::string why = operators::check_scale(graph.value(node.inputs[1]), 1); !why.empty()) return why;
  out.scale = scale->floats;
  out.zero.assign(out.scale.size(), 0);
  for (std::size_t i = 0; zero != nullptr && i < out.zero.size(); ++i)
    out.zero[i] = static_cast<float>(zero->integers[zero->integers.size() == 1 ? 0 : i]);
  const graph::Shape& shape = graph.value(node.inputs[0]).shape;
  if (out.scale.size() > 1) {
    const auto axis = graph::axis_in(graph::onnx_of(node)->integer("axis", 1), shape.size());
    if (!axis || shape[*axis] != static_cast<std::int64_t>(out.scale.size()))
      return "its scales do not run along its axis";
    out.channel = {shape, *axis};
  }
  const graph::Type type = graph.value(node.outputs[0]).type;
  out.lowest = static_cast<float>(type.lowest());
  out.highest = static_cast<float>(type.highest());
  return {};
}

/// Returns the node as an operator of the host. Indices, such as those of an ArgMax, are float32 numbers here.
std::optional<kernels::FloatOperator> host_operator(const Graph& graph, const Node& node) {
  if (graph.value(node.outputs[0]).type != graph::Type::integer(64))
    return operators::float_operator(graph, node);
  Graph copy = graph;
  copy.value(node.outputs[0]).type = graph::Type::float32();
  return operators::float_operator(copy, node);
}

/// Fills in how a node is computed. Returns why the host cannot compute it, or an empty text.
std::string read_node(const Graph& graph, const Node& node, Computation& out) {
  const OnnxOperator& op = *graph::onnx_of(node);
  out.output = node.outputs[0];
  const bool quantises = op.type == "QuantizeLinear", dequantises = op.type == "DequantizeLinear";
  if (quantises || dequantises) {
    out.kind = quantises ? Computation::Kind::kQuantise : Computation::Kind::kDequantise;
    out.tensors = {node.inputs[0]};
    return read_quantiser(graph, node, out);
  }
  const auto is_float = [&graph](ValueId v) { return graph.value(v).type.is_float(); };
  if (op.type == "Identity" || op.type == "Dropout" ||
      (op.type == "Cast" && (is_float(out.output) || !is_float(node.inputs[0])))) {
    out.tensors = {node.inputs[0]};
    return {};
  }
  auto made = host_operator(graph, node);
  if (!made && !node.inputs.empty() && node.inputs[0] != kNoValue && !is_float(node.inputs[0]))
    return "computes with integers, so this part of the model is quantised already: "
           "compile this model without quantising it, or give the float model";
  if (!made)
    return "the host cannot compute this node in float32; "
           "without its value, the layers after the node cannot be calibrated";
  out.kind = Computation::Kind::kOperator;
  out.op = std::move(*made);
  for (const ValueId v : node.inputs)
    if (v != kNoValue && graph.value(v).constant == nullptr) out.tensors.push_back(v);
  return kernels::host::check(out.op);
}

void quantise(const Computation& c, const std::vector<float>& x, std::vector<float>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = c.channel.index(i);
    const float rounded = std::nearbyint(x[i] / c.scale[k]) + c.zero[k];
    y[i] = std::isnan(rounded) ? c.zero[k] : std::clamp(rounded, c.lowest, c.highest);
  }
}

void dequantise(const Computation& c, const std::vector<float>& x, std::vector<float>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t k = c.channel.index(i);
    y[i] = (x[i] - c.zero[k]) * c.scale[k];
  }
}

std::vector<float> floats_of(const graph::Value& value) {
  if (value.type.is_float()) return value.constant->floats;
  std::vector<float> floats;
  for (const std::int64_t i : value.constant->integers) floats.push_back(static_cast<float>(i));
  return floats;
}

}  // namespace

struct Evaluator::Impl {
  std::vector<Computation> computations;  // those that depend on an input
  std::vector<std::vector<float>> values;
  std::vector<ValueId> inputs;

  void compute(const Computation& c) {
    std::vector<float>& out = values[c.output];
    if (c.kind == Computation::Kind::kOperator) {
      std::vector<const float*> tensors;
      for (const ValueId v : c.tensors) tensors.push_back(values[v].data());
      kernels::host::compute(c.op, tensors, out.data());
      return;
    }
    const std::vector<float>& in = values[c.tensors[0]];
    if (c.kind == Computation::Kind::kQuantise)
      quantise(c, in, out);
    else if (c.kind == Computation::Kind::kDequantise)
      dequantise(c, in, out);
    else
      out = in;
  }
};

Evaluator::Evaluator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluator& Evaluator::operator=(Evaluator&&) noexcept = default;

Result<Evaluator> Evaluator::make(const Graph& graph) {
  auto impl = std::make_unique<Impl>();
  impl->inputs = graph.inputs;
  impl->values.resize(graph.values.size());
  std::vector<bool> known(graph.values.size(), false);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].constant == nullptr) continue;
    impl->values[v] = floats_of(graph.values[v]);
    known[v] = true;
  }
  Graph refused;  // only for its list of reasons
  for (const Node& node : graph.nodes) {
    Computation c;
    if (const std::string why = read_node(graph, node, c); !why.empty()) {
      Node copy = node;
      graph::refuse(refused, copy, why);
      continue;
    }
    impl->values[c.output].assign(static_cast<std::size_t>(graph::elements(graph.value(c.output).shape)), 0);
    known[c.output] =
        std::all_of(c.tensors.begin(), c.tensors.end(), [&known](ValueId v) { return known[v]; });
    if (known[c.output])
      impl->compute(c);
    else
      impl->computations.push_back(std::move(c));
  }
  if (!refused.refusals.empty()) return graph::refusal_error(refused);
  return Evaluator(std::move(impl));
}

void Evaluator::run(const Frame& frame) {
  for (std::size_t i = 0; i < impl_->inputs.size(); ++i) impl_->values[impl_->inputs[i]] = frame[i];
  for (const Computation& c : impl_->computations) impl_->compute(c);
}

const std::vector<float>& Evaluator::value(ValueId id) const {
  return impl_->values[id];
}

}  // namespace millrace::compiler::quantize
