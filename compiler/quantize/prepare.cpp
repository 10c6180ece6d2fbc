#include "compiler/quantize/prepare.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/passes/passes.hpp"

namespace millrace::compiler::quantize {
namespace {

using graph::Constant;
using graph::Graph;
using graph::has_input;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::Type;
using graph::Value;
using graph::ValueId;

/// Replaces each constant that consists of integers and a dequantiser by a float constant.
void make_constants_float(Graph& graph) {
  const graph::Uses uses(graph);
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    const bool constant = graph::is_onnx(node, "DequantizeLinear") &&
                          graph::constant_input(graph, node, 0) != nullptr &&
                          !uses.is_output[node.outputs[0]];
    std::optional<std::vector<float>> floats;
    if (constant) floats = graph::known_floats(graph, uses, node.outputs[0]);
    if (floats)
      graph.value(node.outputs[0]).constant =
          std::make_shared<const Constant>(Constant{std::move(*floats), {}});
    else
      kept.push_back(node);
  }
  graph.nodes = std::move(kept);
}

/// Runs the standard passes that come before the first one that replaces ONNX operators.
Result<Graph> simplify(Graph graph) {
  for (const passes::Pass& pass : passes::standard_passes()) {
    if (pass.gives != graph::Level::kImported) break;
    MILLRACE_ASSIGN(graph, pass.run(std::move(graph)));
  }
  return graph;
}

/// Gives a node a new constant as input number `input`. Other nodes that read the old constant keep it.
void set_floats(Graph& graph, Node& node, std::size_t input, Shape shape, std::vector<float> floats) {
  const std::string name =
      has_input(node, input) ? graph.value(node.inputs[input]).name : node.name + ".bias";
  if (node.inputs.size() <= input) node.inputs.resize(input + 1, graph::kNoValue);
  node.inputs[input] =
      graph.add_constant(name, Type::float32(), std::move(shape), Constant{std::move(floats), {}});
}

void set_vector(Graph& graph, Node& node, std::size_t input, std::vector<float> floats) {
  const Shape shape{static_cast<std::int64_t>(floats.size())};
  set_floats(graph, node, input, shape, std::move(floats));
}

/// Returns the bias of a layer, one entry for each channel; zeros if the layer has no bias. Returns nothing if the bias is
/// not constant or has another number of entries.
std::optional<std::vector<float>> bias_of(const Graph& graph, const Node& node, std::size_t channels) {
  if (!has_input(node, 2)) return std::vector<float>(channels, 0.0F);
  const Constant* bias = graph::constant_input(graph, node, 2);
  if (bias == nullptr) return std::nullopt;
  if (bias->floats.size() == 1) return std::vector<float>(channels, bias->floats[0]);
  if (bias->floats.size() != channels) return std::nullopt;
  return bias->floats;
}

/// Multiplies the weights by a factor for each output channel.
std::vector<float> scaled_weights(const Value& weights, std::size_t axis,
                                  const std::vector<double>& factors) {
  const graph::AlongAxis channel(weights.shape, axis);
  std::vector<float> floats = weights.constant->floats;
  for (std::size_t i = 0; i < floats.size(); ++i)
    floats[i] = static_cast<float>(static_cast<double>(floats[i]) * factors[channel.index(i)]);
  return floats;
}

/// Merges the BatchNormalization node `at` into the convolution or matrix product before it. Returns false if that is
/// impossible.
bool merge_batch_norm(Graph& graph, const graph::Uses& uses, std::size_t at) {
  const Node& norm = graph.nodes[at];
  const std::int64_t before = uses.producer[norm.inputs[0]];
  if (before < 0 || uses.readers[norm.inputs[0]].size() != 1 || uses.is_output[norm.inputs[0]]) return false;
  const auto product = product_of(graph, static_cast<std::size_t>(before));
  Node& node = graph.nodes[static_cast<std::size_t>(before)];
  if (!product || !product->per_channel || graph::is_onnx(node, "MatMul")) return false;
  const auto bias = bias_of(graph, node, product->channels);
  const Constant* parts[4];  // scale, bias, mean, variance
  for (std::size_t i = 0; i < 4; ++i) {
    parts[i] = graph::constant_input(graph, norm, i + 1);
    if (parts[i] == nullptr || parts[i]->floats.size() != product->channels) return false;
  }
  if (!bias) return false;
  const double epsilon = static_cast<double>(graph::onnx_of(norm)->real("epsilon", 1e-5F));
  std::vector<double> factors(product->channels);
  std::vector<float> moved(product->channels);
  for (std::size_t c = 0; c < factors.size(); ++c) {
    const auto part = [&](std::size_t i) { return static_cast<double>(parts[i]->floats[c]); };
    factors[c] = part(0) / std::sqrt(part(3) + epsilon);
    moved[c] = static_cast<float>((static_cast<double>((*bias)[c]) - part(2)) * factors[c] + part(1));
  }
  const Value weights = graph.value(node.inputs[product->weights]);
  set_floats(graph, node, product->weights, weights.shape, scaled_weights(weights, product->axis, factors));
  set_vector(graph, node, 2, std::move(moved));
  node.sources = graph::join_sources(node.sources, norm.sources);
  node.outputs = norm.outputs;
  return true;
}

void merge_batch_norms(Graph& graph) {
  std::vector<bool> merged(graph.nodes.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (graph::is_onnx(graph.nodes[i], "BatchNormalization"))
      merged[i] = merge_batch_norm(graph, graph::Uses(graph), i);
  // Remove the merged nodes only now. Until here, a merged BatchNormalization and the layer before it have the same
  // output, and the layer comes first.
  std::vector<Node> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!merged[i]) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);
}

/// Folds alpha and beta of a Gemm into its weights and bias, and makes the bias a vector.
void simplify_gemm(Graph& graph, std::size_t at) {
  const auto product = product_of(graph, at);
  Node& node = graph.nodes[at];
  if (!product || !graph::is_onnx(node, "Gemm")) return;
  auto& op = std::get<OnnxOperator>(node.operation);
  const double alpha = static_cast<double>(op.real("alpha", 1)),
               beta = static_cast<double>(op.real("beta", 1));
  auto bias = bias_of(graph, node, product->channels);
  if (!bias) return;
  const Value weights = graph.value(node.inputs[product->weights]);
  if (alpha != 1)
    set_floats(graph, node, product->weights, weights.shape,
               scaled_weights(weights, product->axis, std::vector<double>(product->channels, alpha)));
  if (has_input(node, 2)) {
    for (float& b : *bias) b = static_cast<float>(static_cast<double>(b) * beta);
    set_vector(graph, node, 2, std::move(*bias));
  }
  op.attributes.erase("alpha");
  op.attributes.erase("beta");
}

/// Follows the value `from` through operators whose result scales with their input (Relu, pools, Flatten), and returns
/// the Conv or Gemm node that reads the last value. Returns nothing if a value on the way has a second reader.
std::optional<Product> reader_of(const Graph& graph, const graph::Uses& uses, ValueId from,
                                 std::size_t channels) {
  static const std::set<std::string> kScale = {
      "Relu",      "MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool",
      "LeakyRelu", "PRelu",   "Flatten"};
  for (ValueId v = from;;) {
    if (uses.readers[v].size() != 1 || uses.is_output[v]) return std::nullopt;
    const std::size_t reader = uses.readers[v][0];
    const Node& node = graph.nodes[reader];
    const OnnxOperator& op = *graph::onnx_of(node);
    if (!op.domain.empty() || node.inputs[0] != v) return std::nullopt;
    if (const auto product = product_of(graph, reader)) {
      const Shape& weights = graph.value(node.inputs[product->weights]).shape;
      const bool conv = op.type == "Conv";
      if (conv && (op.integer("group", 1) != 1 || weights[1] != static_cast<std::int64_t>(channels)))
        return std::nullopt;
      if (!conv && (op.type != "Gemm" || op.integer("transA", 0) != 0)) return std::nullopt;
      const std::int64_t inputs = weights[conv ? 1 : op.integer("transB", 0) != 0 ? 1 : 0];
      return inputs % static_cast<std::int64_t>(channels) == 0 ? product : std::nullopt;
    }
    if (!kScale.contains(op.type)) return std::nullopt;
    if (op.type == "Flatten" && op.integer("axis", 1) != 1) return std::nullopt;
    v = node.outputs[0];
  }
}

/// Returns the largest magnitude of the weights of each channel. The channels run along `axis`, and `each` neighbouring
/// indices belong to one channel.
std::vector<double> largest_by(const Value& weights, std::size_t axis, std::size_t channels,
                               std::size_t each) {
  const graph::AlongAxis along(weights.shape, axis);
  std::vector<double> largest(channels, 0);
  for (std::size_t i = 0; i < weights.constant->floats.size(); ++i) {
    double& most = largest[along.index(i) / each];
    most = std::max(most, std::abs(static_cast<double>(weights.constant->floats[i])));
  }
  return largest;
}

}  // namespace

std::optional<Product> product_of(const Graph& graph, std::size_t index) {
  const Node& node = graph.nodes[index];
  const OnnxOperator* op = graph::onnx_of(node);
  if (op == nullptr || !op->domain.empty() || !has_input(node, 1)) return std::nullopt;
  const Value& weights = graph.value(node.inputs[1]);
  if (weights.constant == nullptr || !weights.type.is_float() || weights.shape.size() < 2)
    return std::nullopt;
  Product product;
  product.node = index;
  const std::int64_t groups = op->integer("group", 1);
  if (op->type == "Conv") {
    product.axis = 0;
  } else if (op->type == "ConvTranspose") {
    product.axis = 1;
    product.per_channel = groups == 1;
  } else if (op->type == "Gemm") {
    product.axis = op->integer("transB", 0) != 0 ? 0 : 1;
  } else if (op->type == "MatMul" && weights.shape.size() == 2) {
    product.axis = 1;
  } else {
    return std::nullopt;
  }
  product.channels =
      static_cast<std::size_t>(weights.shape[product.axis] * (op->type == "ConvTranspose" ? groups : 1));
  return product;
}

Result<Graph> prepare(Graph graph) {
  MILLRACE_ASSIGN(graph, simplify(std::move(graph)));
  make_constants_float(graph);
  MILLRACE_ASSIGN(graph, simplify(std::move(graph)));
  merge_batch_norms(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) simplify_gemm(graph, i);
  MILLRACE_TRY(graph::verify(graph, graph::Level::kImported));
  return graph;
}

std::size_t equalise(Graph& graph) {
  const graph::Uses uses(graph);
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto first = product_of(graph, i);
    if (!first || !first->per_channel || graph::is_onnx(graph.nodes[i], "MatMul")) continue;
    const auto second = reader_of(graph, uses, graph.nodes[i].outputs[0], first->channels);
    auto bias = bias_of(graph, graph.nodes[i], first->channels);
    if (!second || !bias) continue;
    Node &a = graph.nodes[i], &b = graph.nodes[second->node];
    const Value before = graph.value(a.inputs[first->weights]),
                after = graph.value(b.inputs[second->weights]);
    const std::size_t axis = 1 - second->axis;  // the input channels of Conv [O, I, ...] and of Gemm
    const std::size_t each = static_cast<std::size_t>(after.shape[axis]) / first->channels;
    const auto most_before = largest_by(before, first->axis, first->channels, 1);
    const auto most_after = largest_by(after, axis, first->channels, each);
    // Divide the first layer's result in channel c by s, and multiply the second layer's weights by s. The largest
    // weights of both layers are then sqrt(before * after).
    std::vector<double> shrink(first->channels, 1), grow(static_cast<std::size_t>(after.shape[axis]), 1);
    for (std::size_t c = 0; c < shrink.size(); ++c) {
      const double s = std::sqrt(most_before[c] / most_after[c]);
      constexpr double kMost = 1e3;  // a channel that is almost unused is left alone
      if (!std::isfinite(s) || s < 1 / kMost || s > kMost) continue;
      shrink[c] = 1 / s;
      for (std::size_t k = 0; k < each; ++k) grow[c * each + k] = s;
      (*bias)[c] = static_cast<float>(static_cast<double>((*bias)[c]) / s);
    }
    set_floats(graph, a, first->weights, before.shape, scaled_weights(before, first->axis, shrink));
    if (has_input(a, 2)) set_vector(graph, a, 2, std::move(*bias));
    set_floats(graph, b, second->weights, after.shape, scaled_weights(after, axis, grow));
    ++pairs;
  }
  return pairs;
}

}  // namespace millrace::compiler::quantize
