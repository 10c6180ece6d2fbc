#include "compiler/quantize/place.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/operators/operators.hpp"
#include "compiler/quantize/weights.hpp"
#include "kernels/host/float_operator.hpp"

namespace millrace::compiler::quantize {
namespace {

using graph::Constant;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::Type;
using graph::Value;
using graph::ValueId;

constexpr std::int64_t kOpset = 13;  // of the quantisers; export_onnx() writes the whole model with one set
constexpr int kActivationBits = 8;

/// How a value is quantised: an integer represents the number (integer - zero) * scale.
struct Grid {
  float scale = 1;
  std::int64_t zero = 0;
  Type type;
};

/// Whether an operator only moves or selects elements, so that its result can have the scale and zero point of its
/// input.
bool moves(const OnnxOperator& op) {
  static const std::set<std::string> kMoves = {
      "MaxPool", "GlobalMaxPool", "Flatten", "Reshape",      "Squeeze",      "Unsqueeze", "Transpose",
      "Slice",   "Split",         "Gather",  "DepthToSpace", "SpaceToDepth", "Expand",    "Tile"};
  if (!op.domain.empty()) return false;
  if (op.type == "Resize" || op.type == "Upsample") return op.text("mode", "nearest") == "nearest";
  return kMoves.contains(op.type);
}

/// Returns scale and zero point with which int8 or uint8 covers `range`. The number 0 is always represented exactly. If
/// the range has both signs, the zero point is 0 unless another one makes the steps clearly finer. Zero points cost
/// nothing in hardware.
Grid grid_for(Range range) {
  const double low = static_cast<double>(range.low), high = static_cast<double>(range.high);
  Grid grid;
  if (low >= 0) {
    grid.type = Type::natural(kActivationBits);
    grid.scale = static_cast<float>(high / 255);
  } else {
    grid.type = Type::integer(kActivationBits);
    const double symmetric = std::max(-low / 127, high / 127), asymmetric = (high - low) / 255;
    constexpr double kWorthwhile = 0.9;
    if (asymmetric < symmetric * kWorthwhile) {
      grid.scale = static_cast<float>(asymmetric);
      if (grid.scale > 0)
        grid.zero = std::clamp(
            static_cast<std::int64_t>(std::nearbyint(-128 - low / static_cast<double>(grid.scale))),
            std::int64_t{-128}, std::int64_t{127});
    } else {
      grid.scale = static_cast<float>(symmetric);
    }
  }
  if (!(grid.scale > 0) || !std::isnormal(grid.scale)) grid.scale = 1;
  return grid;
}

float step_of(const FixedPoint& format) {
  return std::ldexp(1.0F, -format.fraction);
}

/// Quantises weights that are multiples of the declared format's step, so no weight is rounded.
Weights declared_weights(const Value& weights, const FixedPoint& format) {
  Weights made;
  made.scale = {step_of(format)};
  for (const float w : weights.constant->floats)
    made.integers.push_back(std::llround(std::ldexp(w, format.fraction)));
  return made;
}

class Placer {
 public:
  Placer(Graph graph, const Placement& told) : graph_(std::move(graph)), told_(told), uses_(graph_) {}

  Placed run() {
    original_values_ = graph_.values.size();
    old_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (const Node& n : old_) names_.take(n.name);
    for (std::size_t i = 0; i < old_.size(); ++i) take(i);
    for (auto& [name, result] : placed_.results) {
      const auto q = quantised_.find(result.floats);
      result.quantised = q == quantised_.end() ? result.floats : q->second;
    }
    for (ValueId& output : graph_.outputs)
      if (const auto q = quantised_.find(output); q != quantised_.end()) rename(output, q->second);
    placed_.graph = std::move(graph_);
    return std::move(placed_);
  }

 private:
  bool is_float_node(const Node& node) const {
    const auto bits = told_.bits.find(node.name);
    return told_.keep_float.contains(node.name) || (bits != told_.bits.end() && bits->second == 32);
  }

  const operators::Operator* row_of(const Node& node) const {
    const OnnxOperator& op = *graph::onnx_of(node);
    const operators::Operator* row = operators::find(op);
    const bool integer = row != nullptr && (row->lower_elementwise != nullptr || row->lower_qdq != nullptr);
    return integer && !is_float_node(node) && graph_.value(node.outputs[0]).type.is_float() ? row : nullptr;
  }

  void take(std::size_t index) {
    Node node = old_[index];
    const OnnxOperator& op = *graph::onnx_of(node);
    const ValueId output = node.outputs[0];
    if (op.type == "DequantizeLinear" || op.type == "QuantizeLinear") {
      keep_quantiser(std::move(node));
      return;
    }
    const operators::Operator* row = row_of(node);
    const bool computes = row != nullptr && row->computes;
    const bool moved = !computes && moves(op) && !is_float_node(node);
    std::optional<Grid> grid;
    for (ValueId& v : node.inputs) {
      if (v == kNoValue || graph_.value(v).constant != nullptr || !graph_.value(v).type.is_float()) continue;
      if (computes && !raw_.contains(v)) v = quantise(v, grid_of(v));
      if (const auto q = quantised_.find(v); q != quantised_.end()) v = q->second;
    }
    if (moved)
      if (const auto known = grids_.find(node.inputs[0]); known != grids_.end()) grid = known->second;
    if (const auto product = product_of(old_, index); product && computes) quantise_product(node, *product);
    graph_.nodes.push_back(std::move(node));
    if (grid) {
      for (const ValueId v : old_[index].outputs)
        if (v != kNoValue && !leads_to_quantiser(v)) quantise(v, *grid);
    } else if (computes && !leads_to_quantiser(output) && !ends_unscaled(output)) {
      if (fused(output))
        raw_.insert(output);
      else
        quantise(output, grid_of(output));
    }
    note_result(index, computes && raw_.contains(output));
  }

  /// Like quantize::product_of(), for a node that was already removed from the graph.
  std::optional<Product> product_of(const std::vector<Node>& nodes, std::size_t index) const {
    Graph one;
    one.nodes = {nodes[index]};
    if (one.nodes[0].inputs.size() < 2) return std::nullopt;
    // quantize::product_of() reads no value but the weights, so a graph with only this value is enough.
    const ValueId weights = one.nodes[0].inputs[1];
    if (weights == kNoValue) return std::nullopt;
    one.values.resize(2);
    one.values[1] = graph_.value(weights);
    one.nodes[0].inputs = {0, 1};
    auto product = quantize::product_of(one, 0);
    if (product) product->node = index;
    return product;
  }

  /// Records which value is the result of a layer. If the following nodes are computed together with the layer, this is
  /// the result of the last of these nodes.
  void note_result(std::size_t index, bool chain_goes_on) {
    const Node& node = old_[index];
    const bool layer = told_.bits.contains(node.name);
    std::string name = layer ? node.name : std::string();
    if (!layer && !node.inputs.empty())
      for (const ValueId v : node.inputs)
        if (const auto chain = chains_.find(v); chain != chains_.end()) name = chain->second;
    if (name.empty()) return;
    placed_.results[name].floats = node.outputs[0];
    if (chain_goes_on) chains_[node.outputs[0]] = name;
  }

  /// Keeps a quantiser or dequantiser of the original model. A dequantised value needs no further quantiser.
  void keep_quantiser(Node node) {
    const Constant *scale = graph::constant_input(graph_, node, 1),
                   *zero = graph::constant_input(graph_, node, 2);
    const ValueId output = node.outputs[0];
    const ValueId input = node.inputs[0];
    if (node.inputs[0] != kNoValue)
      if (const auto q = quantised_.find(input); q != quantised_.end()) node.inputs[0] = q->second;
    if (graph::is_onnx(node, "DequantizeLinear")) {
      quantised_[output] = output;
      if (scale != nullptr && scale->size() == 1)
        grids_[output] = {scale->floats[0], zero == nullptr ? 0 : zero->integers[0],
                          graph_.value(input).type};
    }
    graph_.nodes.push_back(std::move(node));
  }

  /// Whether all readers of a value are quantisers of the model.
  bool leads_to_quantiser(ValueId v) const {
    return !uses_.readers[v].empty() && !uses_.is_output[v] &&
           std::all_of(uses_.readers[v].begin(), uses_.readers[v].end(),
                       [&](std::size_t reader) { return graph::is_onnx(old_[reader], "QuantizeLinear"); });
  }

  /// Whether the value remains an unquantised sum. If a format is declared, the result of the last layer remains one,
  /// because the format's range would clip the scores and make them equal.
  bool ends_unscaled(ValueId v) const {
    return told_.options->declared && uses_.is_output[v] && uses_.readers[v].empty();
  }

  /// Whether the only reader of `v` is computed together with the node that produces `v`.
  bool fused(ValueId v) const {
    if (uses_.is_output[v] || uses_.readers[v].size() != 1) return false;
    const Node& reader = old_[uses_.readers[v][0]];
    const operators::Operator* row = row_of(reader);
    if (row == nullptr || row->fusion == operators::Fusion::kNever) return false;
    if (row->fusion == operators::Fusion::kAlways) return true;
    return std::any_of(reader.inputs.begin(), reader.inputs.end(), [&](ValueId other) {
      return other != kNoValue && graph_.value(other).constant != nullptr;
    });
  }

  Grid grid_of(ValueId v) const {
    const Options& options = *told_.options;
    if (options.declared) return {step_of(*options.declared), 0, Type::integer(options.declared->bits)};
    if (v >= original_values_) return {};
    return grid_for(told_.statistics->range(v, options.method, options.percent, 1 << kActivationBits));
  }

  ValueId scale_of(const std::string& name, const std::vector<float>& scales) {
    const Shape shape = scales.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(scales.size())};
    return graph_.add_constant(name + "_scale", Type::float32(), shape, {scales, {}});
  }

  /// Appends a DequantizeLinear node. `scales` has one entry, or one for each index along `axis`. The node gets a zero
  /// point only if `with_zero`.
  ValueId dequantise(ValueId q, const std::vector<float>& scales, const std::string& name, std::int64_t zero,
                     std::size_t axis, bool with_zero) {
    std::vector<ValueId> inputs = {q, scale_of(name, scales)};
    if (with_zero) {
      const Shape shape = scales.size() == 1 ? Shape{} : Shape{static_cast<std::int64_t>(scales.size())};
      inputs.push_back(graph_.add_constant(name + "_zero_point", graph_.value(q).type, shape,
                                           {{}, std::vector<std::int64_t>(scales.size(), zero)}));
    }
    const ValueId out = graph_.add_value(name + "_dequantized", Type::float32(), graph_.value(q).shape);
    OnnxOperator op{"", "DequantizeLinear", kOpset, {}};
    if (scales.size() > 1) op.attributes["axis"] = static_cast<std::int64_t>(axis);
    graph_.nodes.push_back(
        graph::make_node(names_.unique(name + "_dequantize"), std::move(op), std::move(inputs), out, {}));
    return out;
  }

  /// Returns the dequantised form of `v`. Appends a quantiser and a dequantiser for `v` when called for the first time.
  ValueId quantise(ValueId v, const Grid& grid) {
    if (const auto done = quantised_.find(v); done != quantised_.end()) return done->second;
    if (grids_.contains(v)) return v;
    const std::string name = graph_.value(v).name;
    const ValueId q = graph_.add_value(name + "_quantized", grid.type, graph_.value(v).shape);
    const ValueId scale = scale_of(name + "_quantized", {grid.scale});
    const ValueId zero =
        graph_.add_constant(name + "_quantized_zero_point", grid.type, {}, {{}, {grid.zero}});
    graph_.nodes.push_back(graph::make_node(names_.unique(name + "_quantize"),
                                            OnnxOperator{"", "QuantizeLinear", kOpset, {}}, {v, scale, zero},
                                            q, {}));
    const ValueId out = dequantise(q, {grid.scale}, name, grid.zero, 0, true);
    grids_[out] = grid;
    quantised_[v] = out;
    return out;
  }

  /// Replaces the float weights and bias of a layer by integers with dequantisers.
  void quantise_product(Node& node, const Product& product) {
    const Value weights = graph_.value(node.inputs[product.weights]);
    const auto bits = told_.bits.find(node.name);
    const auto moments = told_.moments.find(node.name);
    const auto data = grids_.find(node.inputs[product.data]);
    const double step = data == grids_.end() ? 0 : static_cast<double>(data->second.scale);
    const Constant* old_bias =
        graph::is_onnx(node, "MatMul") ? nullptr : graph::constant_input(graph_, node, 2);
    const std::vector<double> least = least_scales(old_bias, product, step);
    const auto& format = told_.options->declared;
    const Weights made = format
                             ? declared_weights(weights, *format)
                             : quantise_weights(weights, product.axis, product.per_channel,
                                                bits == told_.bits.end() ? 8 : bits->second, least,
                                                moments == told_.moments.end() ? nullptr : &moments->second);
    const std::vector<double> error = mean_error(node, product, weights, made);
    const ValueId integers = graph_.add_constant(weights.name + "_quantized", Type::integer(8), weights.shape,
                                                 {{}, made.integers});
    node.inputs[product.weights] = dequantise(integers, made.scale, weights.name, 0, product.axis, true);
    const bool takes_bias = !graph::is_onnx(node, "MatMul");
    if (!takes_bias || step <= 0) return;
    if (old_bias == nullptr && (graph::has_input(node, 2) || error.empty())) return;
    if (old_bias != nullptr && old_bias->floats.size() != product.channels) return;
    std::vector<double> bias(product.channels, 0);
    for (std::size_t c = 0; c < bias.size(); ++c)
      bias[c] = (old_bias == nullptr ? 0 : static_cast<double>(old_bias->floats[c])) -
                (error.empty() ? 0 : error[c]);
    quantise_bias(node, bias, made.scale, static_cast<float>(step));
  }

  void quantise_bias(Node& node, const std::vector<double>& bias, const std::vector<float>& weight_scale,
                     float step) {
    std::vector<float> scale;
    for (const float w : weight_scale) scale.push_back(step * w);
    std::vector<std::int64_t> integers;
    constexpr double kMost = 2147483647;
    for (std::size_t c = 0; c < bias.size(); ++c)
      integers.push_back(static_cast<std::int64_t>(std::clamp(
          std::nearbyint(bias[c] / static_cast<double>(scale[scale.size() == 1 ? 0 : c])), -kMost, kMost)));
    const std::string name =
        graph::has_input(node, 2) ? graph_.value(node.inputs[2]).name : node.name + "_bias";
    const ValueId q =
        graph_.add_constant(name + "_quantized", Type::integer(32), {static_cast<std::int64_t>(bias.size())},
                            {{}, std::move(integers)});
    node.inputs.resize(3, kNoValue);
    node.inputs[2] = dequantise(q, scale, name, 0, 0, false);
  }

  /// Returns the smallest scales of the weights with which the bias fits into 31 bits. The bias is counted in steps of
  /// input scale times weight scale.
  std::vector<double> least_scales(const Constant* bias, const Product& product, double step) const {
    if (bias == nullptr || step <= 0 || bias->floats.size() != product.channels) return {};
    constexpr double kMostSteps = 1 << 29;
    std::vector<double> least;
    for (const float b : bias->floats) least.push_back(std::abs(static_cast<double>(b)) / step / kMostSteps);
    if (!product.per_channel) least = {*std::max_element(least.begin(), least.end())};
    return least;
  }

  /// Returns, for each output channel, by how much the rounding of the weights changes the mean of the layer's result:
  /// the mean input times the weights' rounding errors. Empty if bias correction is off or impossible.
  std::vector<double> mean_error(const Node& node, const Product& product, const Value& weights,
                                 const Weights& made) const {
    const ValueId data = old_[product.node].inputs[product.data];
    if (!told_.options->correct_bias || !product.per_channel || data >= told_.statistics->values.size())
      return {};
    const auto& mean = told_.statistics->values[data].mean;
    if (mean.empty()) return {};
    Graph scratch = one_product(old_[product.node], weights, made, product);
    const auto op = operators::float_operator(scratch, scratch.nodes[0]);
    if (!op || !kernels::host::check(*op).empty()) return {};
    const std::vector<float> input(mean.begin(), mean.end());
    const Shape& shape = graph_.value(node.outputs[0]).shape;
    std::vector<float> result(static_cast<std::size_t>(graph::elements(shape)));
    const float* tensors[] = {input.data()};
    kernels::host::compute(*op, tensors, result.data());
    const graph::AlongAxis along(shape, graph::is_onnx(node, "Gemm")     ? 1
                                        : graph::is_onnx(node, "MatMul") ? shape.size() - 1
                                                                         : 1);
    std::vector<double> error(product.channels, 0);
    const double each = static_cast<double>(result.size()) / static_cast<double>(product.channels);
    for (std::size_t i = 0; i < result.size(); ++i)
      error[along.index(i)] += static_cast<double>(result[i]) / each;
    return error;
  }

  /// Returns a graph with only one layer, without bias. Its weights are the rounding errors of the quantised weights.
  Graph one_product(Node node, const Value& weights, const Weights& made, const Product& product) const {
    Graph scratch;
    const graph::AlongAxis along(weights.shape, product.axis);
    Constant errors;
    for (std::size_t i = 0; i < made.integers.size(); ++i)
      errors.floats.push_back(static_cast<float>(made.integers[i]) *
                                  made.scale[made.scale.size() == 1 ? 0 : along.index(i)] -
                              weights.constant->floats[i]);
    const Value& data = graph_.value(node.inputs[product.data]);
    const Value& result = graph_.value(node.outputs[0]);
    const ValueId x = scratch.add_value("x", data.type, data.shape);
    const ValueId w = scratch.add_constant("w", Type::float32(), weights.shape, std::move(errors));
    const ValueId y = scratch.add_value("y", result.type, result.shape);
    node.inputs = {x, w};
    node.outputs = {y};
    scratch.nodes.push_back(std::move(node));
    return scratch;
  }

  /// The graph's output keeps its name.
  void rename(ValueId& output, ValueId to) {
    std::swap(graph_.value(output).name, graph_.value(to).name);
    output = to;
  }

  Graph graph_;
  const Placement& told_;
  graph::Uses uses_;
  graph::Names names_;  // of the nodes
  std::size_t original_values_ = 0;
  std::vector<Node> old_;
  std::map<ValueId, ValueId> quantised_;   // from a float value to its dequantised form
  std::map<ValueId, Grid> grids_;          // of dequantised values
  std::set<ValueId> raw_;                  // values between two nodes that are computed together
  std::map<ValueId, std::string> chains_;  // raw values behind a product, with the product's name
  Placed placed_;
};

}  // namespace

Placed place_quantisers(Graph graph, const Placement& placement) {
  return Placer(std::move(graph), placement).run();
}

}  // namespace millrace::compiler::quantize
