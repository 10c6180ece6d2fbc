// The table entries of QuantizeLinear and DequantizeLinear.
#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

/// Checks scale and zero point (inputs 1 and 2). They must be scalars, or have one entry per index along the axis.
std::string check_quantiser(const Inference& c) {
  if (std::string why = need(c, 2); !why.empty()) return why;
  if (!c.in(1).type.is_float()) return "has a scale that is not a float";
  if (c.rank(1) > 1)
    return "has a scale of rank " + std::to_string(c.rank(1)) + " (blocked quantisation is not supported)";
  if (c.op.integer("block_size", 0) != 0) return "is quantised in blocks, which is not supported";
  const std::int64_t scales = elements(c.shape_of(1));
  if (scales < 1) return "has an empty scale";
  if (scales > 1) {
    const auto axis = axis_in(c.op.integer("axis", 1), c.rank(0));
    if (!axis) return "has an axis outside its input of " + to_string(c.shape_of(0));
    if (c.shape_of(0)[*axis] != scales)
      return "has " + std::to_string(scales) + " scales for axis " + std::to_string(*axis) + " of " +
             to_string(c.shape_of(0));
  }
  if (c.has(2) && elements(c.shape_of(2)) != scales) return "has a scale and a zero point of different sizes";
  return check_scale(c.in(1), 1);
}

// A quantiser of QONNX may have a range that is narrower than its type.
std::int64_t lowest(const OnnxOperator& op, Type type) {
  return op.written ? op.integer("lowest", type.lowest()) : type.lowest();
}
std::int64_t highest(const OnnxOperator& op, Type type) {
  return op.written ? op.integer("highest", type.highest()) : type.highest();
}

std::string infer_quantise(Inference& c) {
  if (std::string why = check_quantiser(c); !why.empty()) return why;
  if (!c.in(0).type.is_float()) return "quantises an input that is not a float";
  c.shape = c.shape_of(0);
  const std::int64_t number = c.op.integer("output_dtype", 0);
  const auto type = c.has(2) ? c.in(2).type : number == 0 ? Type::natural(8) : type_of(number);
  if (!type) return "quantises to a type that is not supported";
  c.type = *type;
  return c.type.is_integer() && c.type.bits <= 16 ? "" : "quantises to " + to_string(c.type);
}

std::string infer_dequantise(Inference& c) {
  if (std::string why = check_quantiser(c); !why.empty()) return why;
  if (!c.in(0).type.is_integer()) return "dequantises " + to_string(c.in(0).type);
  if (c.has(2) && !c.op.written && c.in(2).type != c.in(0).type)
    return "has a zero point of another type than its input";
  c.type = Type::float32();
  c.shape = c.shape_of(0);
  return {};
}

std::optional<Constant> fold_quantise(const OnnxOperator& op, const Inputs& in, const Value& output) {
  if (in.size() < 2 || in[1] == nullptr) return std::nullopt;
  const Value& x = *in[0];
  const std::vector<float>& scale = in[1]->constant->floats;
  const std::vector<std::int64_t> zero =
      in.size() < 3 || in[2] == nullptr ? std::vector<std::int64_t>{0} : in[2]->constant->integers;
  graph::AlongAxis channel;  // infer_quantise() has checked that the scales run along the axis
  if (scale.size() > 1) channel = {x.shape, *axis_in(op.integer("axis", 1), x.shape.size())};
  Constant c;
  for (std::size_t i = 0; i < x.constant->floats.size(); ++i) {
    const std::size_t at = channel.index(i);
    const Chain q{{Step::quantise({scale[at]}, zero[zero.size() == 1 ? 0 : at], lowest(op, output.type),
                                  highest(op, output.type))}};
    c.integers.push_back(q.evaluate(graph::Number{true, 0, x.constant->floats[i]}, 0).integer);
  }
  return c;
}

Outcome lower(Site& site, bool dequantises) {
  const Constant *scale = site.constant(1), *zero = site.constant(2);
  if (scale == nullptr || (site.has(2) && zero == nullptr))
    return "its scale and zero point must be constants";
  const Type type = dequantises ? site.in(0).type : site.result().type;
  if (type.bits > 32) return "quantises to " + to_string(type);
  Step step = dequantises ? Step::dequantise(scale->floats, 0)
                          : Step::quantise(scale->floats, 0, lowest(site.op, type), highest(site.op, type));
  if (zero != nullptr) step.integers = zero->integers;
  step.qlinear = site.op.qlinear;
  step.written = site.op.written;
  const Shape& shape = site.in(0).shape;
  const auto axis = axis_in(site.op.integer("axis", 1), shape.size());
  if (type.bits <= 16)
    note_meaning(site.graph.value(dequantises ? site.node.inputs[0] : site.node.outputs[0]), step.floats,
                 step.integers);
  Elementwise e{{{std::move(step)}}, -1};
  if (e.chain.channels() > 1) e.axis = axis ? static_cast<std::int64_t>(*axis) : -1;
  return site.give(std::move(e), {site.node.inputs[0]});
}

Outcome lower_quantise(Site& site) {
  return lower(site, false);
}

/// Lowers a dequantiser. A dequantiser of weights or bias stays until the convolution or matrix product that reads it
/// is lowered.
Outcome lower_dequantise(Site& site) {
  return site.in(0).constant == nullptr ? lower(site, true) : Outcome::later();
}

constexpr Operator quantise(const char* domain) {
  return {
      .type = "QuantizeLinear",
      .domain = domain,
      .infer = infer_quantise,
      .fold = fold_quantise,
      .lower_elementwise = lower_quantise,
      .limits =
          "to 2 to 32 bits (hardware: at most 8); "
          "constant finite scales above 0: one scale, or one for each index of an axis; no blockwise scales"};
}

constexpr Operator dequantise(const char* domain) {
  return {
      .type = "DequantizeLinear",
      .domain = domain,
      .infer = infer_dequantise,
      .lower_elementwise = lower_dequantise,
      .limits =
          "constant finite scales above 0: one scale, or one for each index of an axis; no blockwise scales"};
}

constexpr Operator kQuantisers[] = {quantise(kOnnx), quantise(kMicrosoft), dequantise(kOnnx),
                                    dequantise(kMicrosoft)};

}  // namespace

std::span<const Operator> quantisers() {
  return kQuantisers;
}

}  // namespace millrace::compiler::operators
