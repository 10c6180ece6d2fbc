// A float model as if it had been quantised: quantisers where a quantising tool puts them, with scales taken
// from the weights alone. Shapes, widths and amounts of work are those of the quantised model; its numbers
// mean nothing.
#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/passes/rewrite.hpp"

namespace millrace::compiler::passes {
namespace {

const std::set<std::string> kComputing = {"Conv",
                                          "Gemm",
                                          "MatMul",
                                          "Add",
                                          "Mul",
                                          "Sub",
                                          "Relu",
                                          "Clip",
                                          "LeakyRelu",
                                          "Sigmoid",
                                          "Tanh",
                                          "Div",
                                          "Concat",
                                          "AveragePool",
                                          "GlobalAveragePool",
                                          "BatchNormalization",
                                          "HardSigmoid",
                                          "HardSwish"};
const std::set<std::string> kFused = {"Relu",        "Clip",    "LeakyRelu", "BatchNormalization",
                                      "HardSigmoid", "Sigmoid", "Tanh"};

/// The power of two that is not below `value`; 1 for what is no positive number.
float power_of_two(double value) {
  return value > 0 && std::isfinite(value) ? static_cast<float>(std::exp2(std::ceil(std::log2(value))))
                                           : 1.0F;
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
  /// A node, reading what is quantised of its inputs, and its output quantised behind it.
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
    const bool product = op != nullptr && (op->type == "Conv" || op->type == "Gemm" || op->type == "MatMul");
    if (product && node.inputs.size() > 1) largest *= weigh(node);
    if (output < largest_.size()) largest_[output] = largest > 0 && std::isfinite(largest) ? largest : 1;
    const bool computes =
        op != nullptr && kComputing.contains(op->type) && graph_.value(output).type.is_float();
    graph_.nodes.push_back(std::move(node));
    if (computes && !fused(output, all)) quantised_[output] = quantise(output);
  }

  /// What its only reader does to it can be computed with it.
  bool fused(ValueId v, const std::vector<Node>& all) const {
    if (uses_.is_output[v] || uses_.readers[v].size() != 1) return false;
    const Node& reader = all[uses_.readers[v][0]];
    const OnnxOperator* op = onnx_of(reader);
    if (op == nullptr) return false;
    if (kFused.contains(op->type)) return true;
    if (op->type != "Add" && op->type != "Mul" && op->type != "Sub" && op->type != "Div") return false;
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](ValueId other) {
      return other != kNoValue && graph_.value(other).constant != nullptr;
    });
  }

  ValueId scale_of(const std::string& name, float scale) {
    return graph_.add_constant(name + ".scale", Type::float32(), {}, {{scale}, {}});
  }

  ValueId dequantise(ValueId q, float scale, const std::string& name, Type type) {
    const ValueId zero = graph_.add_constant(name + ".zero", type, {}, {{}, {0}});
    const ValueId out = graph_.add_value(name + ".dequantised", Type::float32(), graph_.value(q).shape);
    graph_.nodes.push_back(make_node(name + ".dequantise", OnnxOperator{"", "DequantizeLinear", 13, {}},
                                     {q, scale_of(name, scale), zero}, out, {}));
    return out;
  }

  ValueId quantise(ValueId v) {
    const Type type = Type::integer(types_.activation_bits);
    const std::string name = graph_.value(v).name;
    const float scale = power_of_two(largest_[v] / static_cast<double>(type.highest()));
    const ValueId zero = graph_.add_constant(name + ".zero", type, {}, {{}, {0}});
    const ValueId q = graph_.add_value(name + ".quantised", type, graph_.value(v).shape);
    graph_.nodes.push_back(make_node(name + ".quantise", OnnxOperator{"", "QuantizeLinear", 13, {}},
                                     {v, scale_of(name, scale), zero}, q, {}));
    const ValueId out = dequantise(q, scale, name, type);
    scale_[out] = scale;
    return out;
  }

  /// Constant weights become integers; gives what the sum may grow by.
  double weigh(Node& node) {
    const Value weights = graph_.value(node.inputs[1]);
    if (weights.constant == nullptr || !weights.type.is_float()) return 1;
    const Type type = Type::integer(types_.weight_bits);
    double largest = 0;
    for (const float w : weights.constant->floats)
      if (std::isfinite(w)) largest = std::max(largest, std::abs(static_cast<double>(w)));
    const auto most = static_cast<double>(type.highest());
    const float scale = power_of_two(largest / std::max(1.0, most));
    graph::Constant integers;
    for (const float w : weights.constant->floats) {
      const double q =
          std::isfinite(w) ? std::nearbyint(static_cast<double>(w) / static_cast<double>(scale)) : 0;
      integers.integers.push_back(static_cast<std::int64_t>(std::clamp(q, -most, most)));
    }
    const ValueId q =
        graph_.add_constant(weights.name + ".quantised", type, weights.shape, std::move(integers));
    node.inputs[1] = dequantise(q, scale, weights.name, type);
    if (node.inputs.size() > 2 && node.inputs[2] != kNoValue) node.inputs[2] = bias(node, scale);
    const std::int64_t channels = std::max<std::int64_t>(1, weights.shape.empty() ? 1 : weights.shape[0]);
    return largest *
           std::sqrt(static_cast<double>(std::max<std::int64_t>(1, elements(weights.shape) / channels)));
  }

  /// In units of the accumulator, as tools write it.
  ValueId bias(const Node& node, float weight_scale) {
    const Value value = graph_.value(node.inputs[2]);
    const auto input = scale_.find(node.inputs[0]);
    if (value.constant == nullptr || !value.type.is_float() || input == scale_.end()) return node.inputs[2];
    const double unit = static_cast<double>(input->second) * static_cast<double>(weight_scale);
    graph::Constant integers;
    for (const float b : value.constant->floats) {
      const double q = std::isfinite(b) ? std::nearbyint(static_cast<double>(b) / unit) : 0;
      integers.integers.push_back(static_cast<std::int64_t>(std::clamp(q, -1e9, 1e9)));
    }
    const Type type = Type::integer(32);
    const ValueId q = graph_.add_constant(value.name + ".quantised", type, value.shape, std::move(integers));
    return dequantise(q, static_cast<float>(unit), value.name, type);
  }

  /// A graph output goes on under its own name.
  void rename(ValueId& output, ValueId to) {
    std::swap(graph_.value(output).name, graph_.value(to).name);
    output = to;
  }

  Graph graph_;
  AssumedTypes types_;
  graph::Uses uses_;
  std::vector<double> largest_;  // of a value's elements, about
  std::map<ValueId, ValueId> quantised_;
  std::map<ValueId, float> scale_;  // of a dequantised value
};

}  // namespace

Graph assume_quantised(Graph graph, const AssumedTypes& types) {
  return Assumption(std::move(graph), types).run();
}

std::optional<AssumedTypes> assumed_types(const std::string& text) {
  // "int8", "int4", …, or "w4a8": weights and activations apart.
  const auto bits = [](const std::string& digits) -> std::uint8_t {
    return digits.size() == 1 && digits[0] >= '2' && digits[0] <= '8'
               ? static_cast<std::uint8_t>(digits[0] - '0')
               : 0;
  };
  AssumedTypes types;
  if (text.rfind("int", 0) == 0)
    types.weight_bits = types.activation_bits = bits(text.substr(3));
  else if (text.size() == 4 && text[0] == 'w' && text[2] == 'a')
    types = {bits(text.substr(1, 1)), bits(text.substr(3, 1))};
  else
    return std::nullopt;
  if (types.weight_bits == 0 || types.activation_bits == 0) return std::nullopt;
  return types;
}

}  // namespace millrace::compiler::passes
