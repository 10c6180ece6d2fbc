#include "compiler/operators/qdq.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::compiler::operators {
namespace {

/// Returns the only node that reads `v`. Returns null if `v` has several readers, and if `v` is an output of the model.
const Node* only_reader(const Site& site, ValueId v) {
  const auto& readers = site.uses.readers[v];
  return readers.size() == 1 && !site.uses.is_output[v] ? &site.graph.nodes[readers[0]] : nullptr;
}

bool is_move_or_max(const Node* n) {
  return n != nullptr &&
         (std::holds_alternative<Move>(n->operation) || std::holds_alternative<graph::Select>(n->operation) ||
          std::holds_alternative<graph::MaxPool>(n->operation));
}

/// Whether a quantiser produces the integers `q`, only one dequantiser reads them, and the dequantiser has one reader.
/// ONNX Runtime then converts int8 tensors to uint8, because its x86 kernels are made for uint8.
bool is_between_a_pair(const Site& site, ValueId q) {
  const auto producer = [&site](ValueId v) { return producer_of(site.graph, site.uses, v); };
  ValueId first = q;
  while (is_move_or_max(producer(first)) && only_reader(site, first) != nullptr)
    first = producer(first)->inputs[0];
  const Node* reader = only_reader(site, q);
  while (is_move_or_max(reader)) reader = only_reader(site, reader->outputs[0]);
  const Step* quantise = only_step(producer(first), Step::Kind::kQuantise);
  const Step* dequantise = only_step(reader, Step::Kind::kDequantise);
  return only_reader(site, first) != nullptr && quantise != nullptr && !quantise->qlinear &&
         dequantise != nullptr && !dequantise->qlinear && site.uses.readers[reader->outputs[0]].size() <= 1;
}

/// Whether `quantise` gives the same results with and without `clamp` before it.
bool changes_nothing(const Step& clamp, const Step& quantise) {
  const Chain with{{clamp, quantise}}, without{{quantise}};
  for (const float x : {std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()}) {
    const graph::Number end{true, 0, x};
    if (with.evaluate(end, 0).integer != without.evaluate(end, 0).integer) return false;
  }
  return true;
}

}  // namespace

const Step* only_step(const Node* n, Step::Kind kind) {
  const auto* e = n == nullptr ? nullptr : std::get_if<Elementwise>(&n->operation);
  const bool found = e != nullptr && e->chain.steps.size() == 1 && e->chain.steps[0].kind == kind &&
                     e->chain.channels() == 1;
  return found ? &e->chain.steps[0] : nullptr;
}

std::string not_quantised(const Site& site, std::size_t i) {
  return "its input '" + site.in(i).name +
         "' is not quantised: put a QuantizeLinear/DequantizeLinear pair with one scale before the node";
}

std::optional<Dequantised> activation(const Site& site, std::size_t i, std::string& why) {
  const Node* n = site.producer(i);
  // In FINN models, a separate Mul node multiplies integers by their scale.
  float factor = 1;
  std::vector<Step> steps;  // from the float value back to the integers
  while (const Step* multiply = only_step(n, Step::Kind::kMultiply)) {
    factor *= multiply->floats[0];
    steps.push_back(*multiply);
    n = producer_of(site.graph, site.uses, n->inputs[0]);
  }
  const Step* step = only_step(n, Step::Kind::kDequantise);
  if (step != nullptr && factor > 0) {
    steps.push_back(*step);
    std::reverse(steps.begin(), steps.end());
    return Dequantised{
        n->inputs[0], {step->floats[0] * factor}, step->integers, step->written, std::move(steps)};
  }
  why = not_quantised(site, i);
  return std::nullopt;
}

std::optional<Dequantised> constant_operand(const Site& site, std::size_t i) {
  const Node* n = site.producer(i);
  if (n == nullptr || !is_onnx(*n, "DequantizeLinear")) return std::nullopt;
  const Constant* scale = constant_input(site.graph, *n, 1);
  const Constant* zero = constant_input(site.graph, *n, 2);
  if (constant_input(site.graph, *n, 0) == nullptr || scale == nullptr ||
      (has_input(*n, 2) && zero == nullptr))
    return std::nullopt;
  return Dequantised{n->inputs[0],
                     scale->floats,
                     zero == nullptr ? std::vector<std::int64_t>{0} : zero->integers,
                     onnx_of(*n)->written,
                     {}};
}

std::optional<Dequantised> weights(const Site& site, std::size_t i, std::int64_t channel_axis,
                                   std::string& why) {
  const auto w = constant_operand(site, i);
  if (!w) {
    why = "its weights '" + site.in(i).name +
          "' must come from a DequantizeLinear of constant integers, with a constant scale and zero point";
    return std::nullopt;
  }
  const auto axis = axis_in(onnx_of(*site.producer(i))->integer("axis", 1), site.in(i).shape.size());
  if (w->scale.size() > 1 && axis != static_cast<std::size_t>(channel_axis))
    why = "its weights have scales along an axis other than the axis of the output channels";
  return why.empty() ? w : std::nullopt;
}

std::optional<std::vector<float>> float_bias(Site& site, std::size_t i, std::int64_t channels,
                                             std::string& why) {
  const auto known = known_floats(site.graph, site.uses, site.node.inputs[i]);
  if (!known) {
    why = "its bias is not constant";
    return std::nullopt;
  }
  const Shape& shape = site.in(i).shape;
  const bool along = !shape.empty() && shape.back() == channels && elements(shape) == channels;
  if (known->size() != 1 && !along) {
    why = "its bias of " + to_string(shape) + " does not run along the output channels";
    return std::nullopt;
  }
  return known;
}

std::optional<std::vector<std::int64_t>> bias(Site& site, std::size_t i, const std::vector<float>& scale,
                                              std::int64_t channels, std::string& why, float factor) {
  if (!site.has(i)) return std::vector<std::int64_t>{};
  const auto known = float_bias(site, i, channels, why);
  if (!known) return std::nullopt;
  // If a bias is dequantised by the accumulator's scale, use its integers directly, to avoid float32 rounding.
  const auto own = constant_operand(site, i);
  const bool zero_free =
      own && factor == 1.0F &&
      std::all_of(own->zero.begin(), own->zero.end(), [](std::int64_t z) { return z == 0; });
  std::vector<std::int64_t> result;
  double worst = 0;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const auto pick = [c](const auto& values) { return values[values.size() == 1 ? 0 : c]; };
    const float unit = pick(scale);
    if (zero_free && std::abs(pick(own->scale) - unit) <= 1e-5F * std::abs(unit)) {
      result.push_back(pick(site.graph.value(own->q).constant->integers));
      continue;
    }
    const double exact = static_cast<double>(factor * pick(*known)) / static_cast<double>(unit);
    if (!(std::abs(exact) < 2147483647.0)) {
      why = "its bias is out of the accumulator's range";
      return std::nullopt;
    }
    result.push_back(static_cast<std::int64_t>(std::nearbyint(exact)));
    worst = std::max(worst, std::abs(exact - std::nearbyint(exact)));
  }
  note_rounded_bias(site.graph, site.node, worst);
  return result;
}

std::optional<FusedQuantiser> fused_quantiser(const Site& site, const std::vector<ValueId>& operands) {
  FusedQuantiser found;
  std::vector<Step> clamps;
  found.result = site.node.outputs[0];
  const Step* quantise = nullptr;
  while (quantise == nullptr) {
    const Node* reader = only_reader(site, found.result);
    quantise = only_step(reader, Step::Kind::kQuantise);
    const Step* clamp = only_step(reader, Step::Kind::kRelu);
    if (clamp == nullptr) clamp = only_step(reader, Step::Kind::kClip);
    if (quantise == nullptr && clamp == nullptr) return std::nullopt;
    if (clamp != nullptr) clamps.push_back(*clamp);
    found.absorbed.push_back(site.uses.readers[found.result][0]);
    found.result = reader->outputs[0];
  }
  found.quantise = *quantise;
  if (site.op.qlinear) return found;
  if (quantise->written) return std::nullopt;
  // Remove clamps that do not change the quantised result, as ONNX Runtime does.
  for (const Step& clamp : clamps)
    if (!changes_nothing(clamp, *quantise)) return std::nullopt;
  const Type type = site.graph.value(found.result).type;
  for (const ValueId x : operands)
    if (site.graph.value(x).type != type) return std::nullopt;
  if (type == Type::natural(8)) return found;
  found.made_unsigned =
      type == Type::integer(8) && is_between_a_pair(site, found.result) &&
      std::all_of(operands.begin(), operands.end(), [&](ValueId x) { return is_between_a_pair(site, x); });
  if (!found.made_unsigned) return std::nullopt;
  return found;
}

void note_inexact_sum(Site& site, float scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) == 0.5F) return;
  site.graph.diagnostics.push_back({site.node.name,
                                    "computes an integer sum, but ONNX Runtime adds in float32; "
                                    "the result may differ by one step where the float sum rounds a tie"});
}

void absorb(Site& site, const FusedQuantiser& quantiser) {
  for (const std::size_t i : quantiser.absorbed) site.absorbed[i] = true;
}

}  // namespace millrace::compiler::operators
