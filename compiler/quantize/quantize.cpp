#include "compiler/quantize/quantize.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "compiler/operators/operators.hpp"
#include "compiler/quantize/place.hpp"
#include "compiler/quantize/prepare.hpp"
#include "compiler/quantize/weights.hpp"
#include "kernels/host/float_operator.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr std::size_t kFramesForSqnr = 64;
constexpr std::size_t kFramesForSensitivity = 16;
constexpr std::size_t kFramesForMoments = 256;
/// With --bits 4, a layer keeps weights of 8 bits if 4 bits alone would give its result a lower SQNR (in dB) than this.
constexpr double kLeastSqnr = 14;

Error invalid(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

/// Adds up the energy of a signal and the energy of the error that quantisation causes.
struct Noise {
  double signal = 0, noise = 0;
  void add(const std::vector<float>& wanted, const std::vector<float>& got) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double w = static_cast<double>(wanted[i]), lost = w - static_cast<double>(got[i]);
      signal += w * w;
      noise += lost * lost;
    }
  }
  double sqnr_db() const {
    if (signal <= 0 && noise <= 0) return std::numeric_limits<double>::quiet_NaN();
    if (noise <= 0) return std::numeric_limits<double>::infinity();
    return signal <= 0 ? -std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
  }
};

Status check_frames(const Graph& graph, std::span<const Frame> frames) {
  for (std::size_t f = 0; f < frames.size(); ++f)
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      const graph::Value& input = graph.value(graph.inputs[i]);
      const auto wanted = static_cast<std::size_t>(graph::elements(input.shape));
      if (frames[f].size() != graph.inputs.size() || frames[f][i].size() != wanted)
        return invalid("sample " + std::to_string(f) + " does not fit input '" + printable(input.name) +
                       "', which is " + graph::to_string(input.shape));
    }
  return {};
}

std::vector<Product> products_of(const Graph& graph) {
  std::vector<Product> products;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (const auto product = product_of(graph, i)) products.push_back(*product);
  return products;
}

/// Checks that every node name in the options exists in the model. Names in options about the bits of weights must be
/// names of layers.
Status check_names(const Graph& graph, const Options& options) {
  std::set<std::string> nodes, layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    nodes.insert(graph.nodes[i].name);
    if (product_of(graph, i)) layers.insert(graph.nodes[i].name);
  }
  std::string known;
  for (const std::string& name : layers) {
    if (known.size() > 400) {
      known += ", ...";
      break;
    }
    known += (known.empty() ? "" : ", ") + printable(name);
  }
  for (const std::string& name : options.keep_float)
    if (!nodes.contains(name))
      return invalid("--keep-float " + name +
                     ": the model has no node of this name; "
                     "its layers are " +
                     known);
  for (const std::string& name : options.keep_8bit)
    if (!layers.contains(name))
      return invalid("--keep-8bit " + name +
                     ": the model has no layer of this name; "
                     "its layers are " +
                     known);
  return {};
}

bool is_depthwise(const Graph& graph, const Product& product) {
  const Node& node = graph.nodes[product.node];
  return graph::is_onnx(node, "Conv") && graph.value(node.inputs[product.weights]).shape[1] == 1 &&
         graph::onnx_of(node)->integer("group", 1) > 1;
}

/// Returns for each layer the SQNR (signal to quantisation noise ratio) that the layer's result has if only the weights
/// of this layer are quantised to `bits` bits.
Result<std::vector<double>> sensitivities(const Graph& graph, const std::vector<Product>& products,
                                          std::span<const Frame> frames, int bits) {
  MILLRACE_ASSIGN(Evaluator evaluator, Evaluator::make(graph));
  std::vector<Noise> noise(products.size());
  std::vector<kernels::FloatOperator> exact, rounded;
  for (const Product& product : products) {
    Graph one = graph;
    Node& node = one.nodes[product.node];
    const graph::Value weights = graph.value(node.inputs[product.weights]);
    const Weights made = quantise_weights(weights, product.axis, product.per_channel, bits, {});
    const graph::AlongAxis along(weights.shape, product.axis);
    graph::Constant changed;
    for (std::size_t i = 0; i < made.integers.size(); ++i)
      changed.floats.push_back(static_cast<float>(made.integers[i]) *
                               made.scale[made.scale.size() == 1 ? 0 : along.index(i)]);
    if (node.inputs.size() > 2) node.inputs.resize(2);
    exact.push_back(operators::float_operator(one, node).value_or(kernels::FloatOperator()));
    one.value(node.inputs[product.weights]).constant =
        std::make_shared<const graph::Constant>(std::move(changed));
    rounded.push_back(operators::float_operator(one, node).value_or(kernels::FloatOperator()));
  }
  for (const Frame& frame : frames.first(std::min(frames.size(), kFramesForSensitivity))) {
    evaluator.run(frame);
    for (std::size_t p = 0; p < products.size(); ++p) {
      const Node& node = graph.nodes[products[p].node];
      const float* tensors[] = {evaluator.value(node.inputs[products[p].data]).data()};
      std::vector<float> wanted(evaluator.value(node.outputs[0]).size()), got(wanted.size());
      kernels::host::compute(exact[p], tensors, wanted.data());
      kernels::host::compute(rounded[p], tensors, got.data());
      noise[p].add(wanted, got);
    }
  }
  std::vector<double> result;
  for (const Noise& n : noise) result.push_back(n.sqnr_db());
  return result;
}

/// Chooses how many bits the weights of each layer get.
Result<std::vector<Layer>> choose_bits(const Graph& graph, const std::vector<Product>& products,
                                       std::span<const Frame> frames, const Options& options) {
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<double> alone;
  if (options.weight_bits < 8) {
    MILLRACE_ASSIGN(alone, sensitivities(graph, products, frames, options.weight_bits));
  }
  std::vector<Layer> layers;
  for (std::size_t p = 0; p < products.size(); ++p) {
    const Node& node = graph.nodes[products[p].node];
    Layer layer;
    layer.name = node.name;
    layer.type = graph::operation_name(node.operation);
    layer.weights =
        static_cast<std::uint64_t>(graph::elements(graph.value(node.inputs[products[p].weights]).shape));
    layer.bits = options.weight_bits;
    if (is_in(options.keep_float, node.name)) {
      layer.bits = kFloatBits;
      layer.why = "--keep-float";
    } else if (options.weight_bits < 8) {
      if (is_in(options.keep_8bit, node.name))
        layer.why = "--keep-8bit";
      else if (p == 0)
        layer.why = "first layer";
      else if (p + 1 == products.size())
        layer.why = "last layer";
      else if (is_depthwise(graph, products[p]))
        layer.why = "depthwise";
      else if (alone[p] < kLeastSqnr)
        layer.why = "SQNR of " + std::to_string(static_cast<int>(std::lround(alone[p]))) + " dB with 4 bits";
      if (!layer.why.empty()) layer.bits = 8;
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

/// Collects the input moments (see compensate.hpp) of all layers whose weights have fewer than 8 bits.
Result<std::map<std::string, InputMoments>> collect_moments(const Graph& graph,
                                                            const std::vector<Product>& products,
                                                            const std::vector<Layer>& layers,
                                                            std::span<const Frame> frames) {
  std::map<std::string, InputMoments> moments;
  std::map<std::string, ValueId> data;
  for (std::size_t p = 0; p < products.size(); ++p) {
    if (layers[p].bits >= 8) continue;
    auto of = InputMoments::of(graph, products[p]);
    if (!of) continue;
    moments.emplace(layers[p].name, std::move(*of));
    data[layers[p].name] = graph.nodes[products[p].node].inputs[products[p].data];
  }
  if (moments.empty()) return moments;
  MILLRACE_ASSIGN(Evaluator evaluator, Evaluator::make(graph));
  for (const Frame& frame : frames.first(std::min(frames.size(), kFramesForMoments))) {
    evaluator.run(frame);
    for (auto& [name, of] : moments) of.add(evaluator.value(data[name]));
  }
  return moments;
}

Status check_layers(const std::vector<Layer>& layers) {
  if (std::any_of(layers.begin(), layers.end(), [](const Layer& layer) { return layer.bits != kFloatBits; }))
    return {};
  return Error(ErrorCode::kUnsupported,
               layers.empty()
                   ? "there is nothing to quantise: "
                     "the model has no convolution or fully connected layer with constant float weights"
                   : "--keep-float names all layers; there is nothing left to quantise");
}

/// Compares the results of the quantised graph with those of the float graph: the result of each layer, and the model's
/// first output.
Status measure(const Graph& floats, const Placed& placed, std::span<const Frame> frames, Quantised& result) {
  MILLRACE_ASSIGN(Evaluator exact, Evaluator::make(floats));
  MILLRACE_ASSIGN(Evaluator rounded, Evaluator::make(placed.graph));
  std::vector<Noise> noise(result.layers.size());
  Noise output;
  for (const Frame& frame : frames.first(std::min(frames.size(), kFramesForSqnr))) {
    exact.run(frame);
    rounded.run(frame);
    for (std::size_t i = 0; i < noise.size(); ++i) {
      const LayerResult& at = placed.results.at(result.layers[i].name);
      noise[i].add(exact.value(at.floats), rounded.value(at.quantised));
    }
    output.add(exact.value(floats.outputs[0]), rounded.value(placed.graph.outputs[0]));
  }
  for (std::size_t i = 0; i < noise.size(); ++i) result.layers[i].sqnr_db = noise[i].sqnr_db();
  result.sqnr_db = output.sqnr_db();
  return {};
}

/// Divides the weights and biases of all layers by 2^fraction, because a whole number w in the declared format means w
/// / 2^fraction. Returns an error if a weight is not a whole number or does not fit the format.
Status apply_format(Graph& graph, const std::vector<Product>& products, const FixedPoint& format) {
  const graph::Type type = graph::Type::integer(format.bits);
  for (const Product& product : products) {
    Node& node = graph.nodes[product.node];
    const bool has_bias = !graph::is_onnx(node, "MatMul") && graph::constant_input(graph, node, 2) != nullptr;
    for (const std::size_t input : {product.weights, std::size_t{2}}) {
      if (input == 2 && !has_bias) continue;
      const graph::Value old = graph.value(node.inputs[input]);
      graph::Constant scaled;
      for (const float w : old.constant->floats) {
        const auto value = static_cast<double>(w);
        const bool fits = input == 2 || (value >= static_cast<double>(type.lowest()) &&
                                         value <= static_cast<double>(type.highest()));
        if (value != std::nearbyint(value) || !fits)
          return Error(ErrorCode::kUnsupported,
                       graph::operation_name(node.operation) + " '" + printable(node.name) + "' has the " +
                           (input == 2 ? "bias " : "weight ") + std::to_string(w) +
                           ", which is no whole number of " + graph::to_string(type) +
                           " as --activations says; "
                           "quantise the model with samples instead (--data)");
        scaled.floats.push_back(std::ldexp(w, -format.fraction));
      }
      node.inputs[input] = graph.add_constant(old.name, old.type, old.shape, std::move(scaled));
    }
  }
  return {};
}

/// Quantises a model whose weights are whole numbers in a declared format.
Result<Quantised> quantise_declared(Graph graph, std::span<const Frame> frames, const Options& options) {
  MILLRACE_ASSIGN(graph, prepare(std::move(graph)));
  MILLRACE_TRY(check_names(graph, options));
  const std::vector<Product> products = products_of(graph);
  MILLRACE_TRY(apply_format(graph, products, *options.declared));
  Quantised result;
  result.floats = graph;
  Options plain = options;
  plain.weight_bits = 8;
  MILLRACE_ASSIGN(result.layers, choose_bits(graph, products, frames, plain));
  MILLRACE_TRY(check_layers(result.layers));
  const Statistics nothing;
  Placement placement;
  placement.statistics = &nothing;
  placement.options = &options;
  for (Layer& layer : result.layers) {
    if (layer.bits != kFloatBits) layer.bits = options.declared->bits;
    placement.bits[layer.name] = layer.bits;
  }
  placement.keep_float = {options.keep_float.begin(), options.keep_float.end()};
  Placed placed = place_quantisers(graph, placement);
  MILLRACE_TRY(graph::verify(placed.graph, graph::Level::kImported));
  MILLRACE_TRY(measure(graph, placed, frames, result));
  result.graph = std::move(placed.graph);
  return result;
}

std::size_t largest(const std::vector<float>& values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

std::uint64_t Quantised::float_bytes() const {
  std::uint64_t bytes = 0;
  for (const Layer& layer : layers) bytes += layer.weights * sizeof(float);
  return bytes;
}

std::uint64_t Quantised::bytes() const {
  std::uint64_t bytes = 0;
  for (const Layer& layer : layers) bytes += (layer.weights * static_cast<std::uint64_t>(layer.bits) + 7) / 8;
  return bytes;
}

std::optional<FixedPoint> fixed_point(const std::string& text) {
  for (int bits = 2; bits <= 8; ++bits) {
    for (int places = 0; places <= 16; ++places) {
      if (text == "int" + std::to_string(bits) + ":" + std::to_string(places))
        return FixedPoint{bits, places};
    }
  }
  return std::nullopt;
}

Result<Quantised> quantise(Graph graph, std::span<const Frame> calibration, const Options& options) {
  MILLRACE_TRY(check_frames(graph, calibration));
  if (options.declared) return quantise_declared(std::move(graph), calibration, options);
  if (calibration.empty()) return invalid("there are no samples; give at least one");
  Quantised result;
  result.floats = graph;
  MILLRACE_ASSIGN(graph, prepare(std::move(graph)));
  MILLRACE_TRY(check_names(graph, options));
  if (options.equalise)
    result.notes.push_back("equalised " + std::to_string(equalise(graph)) + " pairs of layers");
  const std::vector<Product> products = products_of(graph);
  MILLRACE_ASSIGN(const Statistics statistics, observe(graph, calibration, options.method));
  MILLRACE_ASSIGN(result.layers, choose_bits(graph, products, calibration, options));
  if (std::all_of(result.layers.begin(), result.layers.end(),
                  [](const Layer& layer) { return layer.bits == kFloatBits; }))
    return Error(ErrorCode::kUnsupported,
                 result.layers.empty()
                     ? "there is nothing to quantise: "
                       "the model has no convolution or fully connected layer with constant float weights"
                     : "--keep-float names all layers; there is nothing left to quantise");
  Placement placement;
  placement.statistics = &statistics;
  placement.options = &options;
  for (const Layer& layer : result.layers) placement.bits[layer.name] = layer.bits;
  placement.keep_float = {options.keep_float.begin(), options.keep_float.end()};
  MILLRACE_ASSIGN(placement.moments, collect_moments(graph, products, result.layers, calibration));
  Placed placed = place_quantisers(graph, placement);
  MILLRACE_TRY(graph::verify(placed.graph, graph::Level::kImported));
  MILLRACE_TRY(measure(graph, placed, calibration, result));
  result.graph = std::move(placed.graph);
  return result;
}

Result<Score> score(const Graph& floats, const Graph& quantised, std::span<const Frame> frames,
                    std::span<const std::int64_t> labels) {
  MILLRACE_TRY(check_frames(floats, frames));
  MILLRACE_ASSIGN(Evaluator exact, Evaluator::make(floats));
  MILLRACE_ASSIGN(Evaluator rounded, Evaluator::make(quantised));
  Score score;
  score.frames = frames.size();
  score.labelled = !labels.empty();
  Noise noise;
  for (std::size_t f = 0; f < frames.size(); ++f) {
    exact.run(frames[f]);
    rounded.run(frames[f]);
    const std::vector<float>&wanted = exact.value(floats.outputs[0]),
          &got = rounded.value(quantised.outputs[0]);
    const std::size_t a = largest(wanted), b = largest(got);
    noise.add(wanted, got);
    score.same += a == b ? 1 : 0;
    if (!score.labelled) continue;
    score.float_right += static_cast<std::int64_t>(a) == labels[f] ? 1 : 0;
    score.quantised_right += static_cast<std::int64_t>(b) == labels[f] ? 1 : 0;
  }
  score.sqnr_db = noise.sqnr_db();
  return score;
}

}  // namespace millrace::compiler::quantize
