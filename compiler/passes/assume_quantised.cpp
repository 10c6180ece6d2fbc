// Quantises a float model for planning only. Adds quantisers where a quantising tool would add them, with scales that
// depend only on the weights. The model then has the shapes, bit widths, work and form of scales of a quantised
// model, but its results are meaningless.
#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

/// Returns the axis of an operator's weights that counts the output channels; 0 for operators other than convolutions
/// and matrix products.
std::size_t channel_axis(const Node& node, const Shape& weights) {
  const OnnxOperator* op = onnx_of(node);
  if (op == nullptr || weights.size() < 2 || op->type == "Conv") return 0;
  if (op->type == "ConvTranspose") return 1;
  return op->type == "Gemm" && op->integer("transB", 0) != 0 ? 0 : weights.size() - 1;
}

class Assumption {
 public:
  Assumption(Graph graph, const AssumedTypes& types)
      : graph_(std::move(graph)), types_(types), uses_(graph_) {}

  Graph run() {
    largest_.assign(graph_.values.size(), 1.0);
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (auto& input : graph_.inputs)
      if (graph_.value(input).type.is_float()) quantised_[input] = quantise(input);
    for (std::size_t i = 0; i < old.size(); ++i) take(std::move(old[i]), old);
    for (auto& output : graph_.outputs)
      if (const auto q = quantised_.find(output); q != quantised_.end()) rename(output, q->second);
    return std::move(graph_);
  }

 private:
  /// Appends the node with quantised inputs. Appends a quantiser behind the node if a quantising tool would add one.
  void take(Node node, const std::vector<Node>& all) {
    const OnnxOperator* op = onnx_of(node);
    double largest = 0;
    for (const ValueId v : node.inputs)
      if (v != kNoValue && v < largest_.size() && graph_.value(v).constant == nullptr)
        largest = std::max(largest, largest_[v]);
    for (ValueId& v : node.inputs)
      if (const auto q = v == kNoValue ? quantised_.end() : quantised_.find(v); q != quantised_.end())
        v = q->second;
    const ValueId output = node.outputs[0];
    const bool product = op != nullptr && (op->type == "Conv" || op->type == "ConvTranspose" ||
                                           op->type == "Gemm" || op->type == "MatMul");
    if (product && node.inputs.size() > 1) largest *= quantise_weights(node);
    if (output < largest_.size()) largest_[output] = largest > 0 && std::isfinite(largest) ? largest : 1;
    const bool computes =
        op != nullptr && operators::needs_quantiser(*op) && graph_.value(output).type.is_float();
    graph_.nodes.push_back(std::move(node));
    if (computes && !fused(output, all)) quantised_[output] = quantise(output);
  }

  /// Whether the only reader of `v` can be computed together with the node that produces `v`.
  bool fused(ValueId v, const std::vector<Node>& all) const {
    if (uses_.is_output[v] || uses_.readers[v].size() != 1) return false;
    const Node& reader = all[uses_.readers[v][0]];
    const OnnxOperator* op = onnx_of(reader);
    const operators::Operator* row = op == nullptr ? nullptr : operators::find(*op);
    if (row == nullptr || row->fusion == operators::Fusion::kNever) return false;
    if (row->fusion == operators::Fusion::kAlways) return true;
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](ValueId other) {
      return other != kNoValue && graph_.value(other).constant != nullptr;
    });
  }

  /// Returns the scale with which `largest` becomes the type's highest integer, rounded up to a power of two if scales
  /// must be powers of two. Returns 1 if `largest` is not positive.
  float scale_for(double largest, Type type) const {
    const double scale = largest / static_cast<double>(std::max<std::int64_t>(1, type.highest()));
    const auto exact = static_cast<float>(scale);
    if (!(exact > 0) || !std::isfinite(exact)) return 1.0F;
    return types_.scales == AssumedScales::kPowerOfTwo
               ? static_cast<float>(std::exp2(std::ceil(std::log2(scale))))
               : exact;
  }

  ValueId scale_of(const std::string& name, const std::vector<float>& scales) {
    const Shape shape = scales.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(scales.size())};
    return graph_.add_constant(name + ".scale", Type::float32(), shape, {scales, {}});
  }

  /// Appends a dequantiser of `q`. `scales` has one entry, or one for each index along `axis`.
  ValueId dequantise(ValueId q, const std::vector<float>& scales, const std::string& name, Type type,
                     std::size_t axis = 0) {
    const Shape shape = scales.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(scales.size())};
    const ValueId zero =
        graph_.add_constant(name + ".zero", type, shape, {{}, std::vector<std::int64_t>(scales.size(), 0)});
    const ValueId out = graph_.add_value(name + ".dequantised", Type::float32(), graph_.value(q).shape);
    OnnxOperator op{"", "DequantizeLinear", 13, {}};
    if (scales.size() > 1) op.attributes["axis"] = static_cast<std::int64_t>(axis);
    graph_.nodes.push_back(
        make_node(name + ".dequantise", std::move(op), {q, scale_of(name, scales), zero}, out, {}));
    return out;
  }

  ValueId quantise(ValueId v) {
    const Type type = Type::integer(types_.activation_bits);
    const std::string name = graph_.value(v).name;
    const float scale = scale_for(largest_[v], type);
    const ValueId zero = graph_.add_constant(name + ".zero", type, {}, {{}, {0}});
    const ValueId q = graph_.add_value(name + ".quantised", type, graph_.value(v).shape);
    graph_.nodes.push_back(make_node(name + ".quantise", OnnxOperator{"", "QuantizeLinear", 13, {}},
                                     {v, scale_of(name, {scale}), zero}, q, {}));
    return dequantise(q, {scale}, name, type);
  }

  /// Quantises constant weights. Returns the largest Euclidean norm of a channel's weights, used to estimate sums.
  double quantise_weights(Node& node) {
    const Value weights = graph_.value(node.inputs[1]);
    if (weights.constant == nullptr || !weights.type.is_float()) return 1;
    const std::size_t axis = channel_axis(node, weights.shape);
    const graph::AlongAxis channel =
        weights.shape.empty() ? graph::AlongAxis() : graph::AlongAxis(weights.shape, axis);
    const auto& floats = weights.constant->floats;
    std::vector<double> largest(channel.extent, 0), squares(channel.extent, 0);
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const double w = std::abs(static_cast<double>(floats[i]));
      const std::size_t c = channel.index(i);
      largest[c] = std::max(largest[c], w);
      squares[c] += w * w;
    }
    const Type type = Type::integer(types_.weight_bits);
    const std::vector<float> scales = weight_scales(largest, type);
    const auto most = static_cast<double>(type.highest());
    graph::Constant integers;
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const auto scale = static_cast<double>(scales[scales.size() == 1 ? 0 : channel.index(i)]);
      const double q = std::nearbyint(static_cast<double>(floats[i]) / scale);
      integers.integers.push_back(static_cast<std::int64_t>(std::clamp(q, -most, most)));
    }
    const ValueId q =
        graph_.add_constant(weights.name + ".quantised", type, weights.shape, std::move(integers));
    node.inputs[1] = dequantise(q, scales, weights.name, type, axis);
    return std::sqrt(*std::max_element(squares.begin(), squares.end()));
  }

  /// Returns one scale per channel, or one power of two for all channels. A scale has a lower bound, because the
  /// channel's bias in units of this scale must fit into 32 bits.
  std::vector<float> weight_scales(const std::vector<double>& largest, Type type) const {
    const double most = *std::max_element(largest.begin(), largest.end());
    if (types_.scales == AssumedScales::kPowerOfTwo) return {scale_for(most, type)};
    std::vector<float> scales;
    for (const double channel : largest) scales.push_back(scale_for(std::max(channel, most / 4096), type));
    return scales;
  }

  /// Replaces a graph output by the value `to`, which takes over the output's name.
  void rename(ValueId& output, ValueId to) {
    std::swap(graph_.value(output).name, graph_.value(to).name);
    output = to;
  }

  Graph graph_;
  AssumedTypes types_;
  graph::Uses uses_;
  std::vector<double> largest_;  // [value]: rough upper bound on the absolute value of its elements
  std::map<ValueId, ValueId> quantised_;
};

}  // namespace

Graph assume_quantised(Graph graph, const AssumedTypes& types) {
  return Assumption(std::move(graph), types).run();
}

std::optional<AssumedTypes> assumed_types(const std::string& text) {
  constexpr std::string_view kSuffix = "-pow2";
  const bool power_of_two = text.ends_with(kSuffix);
  const std::string widths = power_of_two ? text.substr(0, text.size() - kSuffix.size()) : text;
  const AssumedScales scales = power_of_two ? AssumedScales::kPowerOfTwo : AssumedScales::kPerChannel;
  for (std::uint8_t weights = 2; weights <= 8; ++weights) {
    for (std::uint8_t activations = 2; activations <= 8; ++activations) {
      if (widths == "w" + std::to_string(weights) + "a" + std::to_string(activations) ||
          (weights == activations && widths == "int" + std::to_string(weights)))
        return AssumedTypes{weights, activations, scales};
    }
  }
  return std::nullopt;
}

}  // namespace millrace::compiler::passes
