// The QONNX and FINN dialects: Quant, BipolarQuant, Trunc and MultiThreshold, which give floats. The importer replaces
// them by the steps that they mean: divide by the scale, add the zero point, round, convert to N-bit integers, and
// dequantise. Every step is computed as written (Step::written).
//
// The meaning of each operator is that of the QONNX repository's operator pages, versions 1 and 2.
#include <algorithm>
#include <cmath>

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

constexpr std::int64_t kOpset = 13;
constexpr std::int64_t kMostBits = 16;
constexpr std::size_t kMostThresholds = 65535;
constexpr const char* kNotConstant = " must be a constant";

/// The integers that a quantiser gives.
struct IntegerRange {
  Type type;
  std::int64_t lowest = 0, highest = 0;
};

/// Replaces one node of a QONNX or FINN operator. If several errors occur, the first one is reported.
class Rewriter {
 public:
  Rewriter(Graph& graph, const Node& node, graph::Names& names, std::vector<Node>& out)
      : graph_(graph), node_(node), op_(std::get<OnnxOperator>(node.operation)), names_(names), out_(out) {}

  std::string quant() {
    const Scale scale = read_scale(1, "scale");
    const std::vector<float> zero = read_floats(2, "zero point");
    const std::int64_t bits = read_bits(3, "bit width");
    if (!error_.empty()) return error_;
    const IntegerRange range = range_of(bits);
    const std::string rounding = rounding_operator("ROUND");
    const std::int64_t shift = read_zero(zero);
    if (!error_.empty()) return error_;
    ValueId x = node_.inputs[0];
    ValueId quantiser_scale = scale.value;
    std::int64_t axis = scale.axis;
    if (shift != 0 || !rounding.empty()) {
      x = add("Div", {x, node_.inputs[1]}, ".divide");
      if (shift != 0) x = add("Add", {x, number(static_cast<float>(shift), ".zero")}, ".shift");
      if (!rounding.empty()) x = add(rounding, {x}, ".round");
      quantiser_scale = number(1.0F, ".one");
      axis = 1;
    }
    x = quantise(x, quantiser_scale, axis, range);
    dequantise(x, scale, range.type, shift);
    return error_;
  }

  std::string bipolar_quant() {
    const Scale scale = read_scale(1, "scale");
    if (!error_.empty()) return error_;
    dequantise(count({{0.0F}}, 1, Type::integer(2), -1, 2), scale, Type::integer(2), 0);
    return error_;
  }

  std::string trunc() {
    const bool has_result = node_.inputs.size() > 5;  // version 2 has a scale of the result
    const Scale scale = read_scale(1, "scale");
    const std::vector<float> zero = read_floats(2, "zero point");
    const std::int64_t from = read_bits(3, "input bit width");
    const Scale result = has_result ? read_scale(4, "output scale") : scale;
    const std::int64_t to = read_bits(has_result ? 5 : 4, "output bit width");
    const std::string rounding = rounding_operator("FLOOR");
    if (!error_.empty()) return error_;
    const std::int64_t shift = read_zero(zero);
    if (scale.axis != 1 || result.axis != 1) return "has scales for each channel, which is not supported";
    const float factor = has_result ? std::exp2(std::nearbyint(std::log2(result.floats[0] / scale.floats[0])))
                                    : std::exp2(static_cast<float>(from - to));
    if (!error_.empty()) return error_;
    constexpr float kLargestFactor = 4294967296.0F;  // 2^32
    if (has_result && !(factor >= 1 && factor <= kLargestFactor))
      return "has an output scale that is below its scale or more than 2^32 times its scale";
    if (has_result && std::fmod(static_cast<float>(shift), factor) != 0)
      return "has a zero point that is not a multiple of the number by which the node divides";
    // Version 1 of Trunc does not clamp its result, so the result can need one bit more than the output type has.
    const IntegerRange range =
        has_result ? range_of(to) : whole(Type::integer(static_cast<int>(std::min(to + 1, kMostBits))));
    ValueId x = add("Div", {node_.inputs[0], node_.inputs[1]}, ".divide");
    if (shift != 0) x = add("Add", {x, number(static_cast<float>(shift), ".zero")}, ".shift");
    x = add("Round", {x}, ".whole");
    x = add("Div", {x, number(factor, ".factor")}, ".truncate");
    if (!rounding.empty()) x = add(rounding, {x}, ".round");
    x = quantise(x, number(1.0F, ".one"), 1, range);
    dequantise(x, result, range.type,
               has_result ? static_cast<std::int64_t>(static_cast<float>(shift) / factor) : shift);
    return error_;
  }

  std::string multi_threshold() {
    const Constant* t = constant_input(graph_, node_, 1);
    if (t == nullptr || t->floats.empty()) return "has thresholds that are not float constants";
    const Shape& shape = graph_.value(node_.inputs[1]).shape;
    if (shape.size() != 2) return "has thresholds of " + to_string(shape) + ", not channels x steps";
    const auto channels = static_cast<std::size_t>(shape[0]), steps = static_cast<std::size_t>(shape[1]);
    if (steps > kMostThresholds) return "has " + std::to_string(steps) + " thresholds a channel";
    const float scale = op_.real("out_scale", 1.0F), bias = op_.real("out_bias", 0.0F);
    if (!(scale > 0)) return "has an out_scale that is not above 0; export the model again";
    std::vector<std::vector<float>> thresholds;
    for (std::size_t c = 0; c < channels; ++c) {
      const auto first = t->floats.begin() + static_cast<std::ptrdiff_t>(c * steps);
      thresholds.emplace_back(first, first + static_cast<std::ptrdiff_t>(steps));
      std::sort(thresholds.back().begin(), thresholds.back().end());
    }
    // The result is bias + scale * count. It is rewritten as an integer times a scale: (bias / scale + count) * scale.
    // If bias / scale is a multiple of one half but not whole, as for results of -1 and +1, half the scale is used.
    const float ratio = bias / scale;
    const std::int64_t stride = ratio == std::nearbyint(ratio) ? 1 : 2;
    const float offset = ratio * static_cast<float>(stride);
    if (offset != std::nearbyint(offset) || !(std::abs(offset) < 32768.0F))
      return "has an out_bias that is not a multiple of half its out_scale";
    const auto lowest = static_cast<std::int64_t>(offset);
    const std::int64_t highest = lowest + stride * static_cast<std::int64_t>(steps);
    const Type type = result_type(lowest, highest);
    if (!error_.empty()) return error_;
    const std::string layout = op_.text("data_layout", "NCHW");
    if (layout != "NCHW" && layout != "NHWC" && layout != "NC" && layout != "NCW" && layout != "NWC")
      return "has the unknown data_layout '" + layout + "'";
    const std::int64_t axis = layout.back() == 'C' ? -1 : 1;
    const ValueId q = count(thresholds, axis, type, lowest, stride);
    const Scale result{number(scale / static_cast<float>(stride), ".scale"), {}, 1};
    dequantise(q, result, type, 0);
    return error_;
  }

 private:
  /// A scale: either one number, or one number for each index along `axis`. In the second case, `axis` is counted from
  /// the back.
  struct Scale {
    ValueId value = graph::kNoValue;  // a scalar or a vector
    std::vector<float> floats;
    std::int64_t axis = 1;
  };

  void fail(const std::string& why) {
    if (error_.empty()) error_ = why;
  }

  std::vector<float> read_floats(std::size_t i, const char* what) {
    const Constant* c = constant_input(graph_, node_, i);
    if (c == nullptr || c->size() == 0) {
      fail(std::string("its ") + what + " (input " + std::to_string(i + 1) + ")" + kNotConstant);
      return {0};
    }
    if (!c->floats.empty()) return c->floats;
    return {c->integers.begin(), c->integers.end()};
  }

  std::int64_t read_bits(std::size_t i, const char* what) {
    const std::vector<float> bits = read_floats(i, what);
    const auto wrong = std::find_if(bits.begin(), bits.end(), [&](float b) {
      return b != bits[0] || b != std::nearbyint(b) || !(b >= 1) || b > 32;
    });
    if (wrong == bits.end()) return static_cast<std::int64_t>(bits[0]);
    fail(std::string("its ") + what + " must be one whole number from 1 to 32");
    return 1;
  }

  /// Returns the zero point, whose entries must all be the same whole number.
  std::int64_t read_zero(const std::vector<float>& zero) {
    for (const float z : zero)
      if (z != zero[0] || z != std::nearbyint(z) || !(std::abs(z) < 65536)) {
        fail("its zero point must be one whole number for all channels");
        return 0;
      }
    return static_cast<std::int64_t>(zero[0]);
  }

  Scale read_scale(std::size_t i, const char* what) {
    Scale s{graph::kNoValue, read_floats(i, what), 1};
    if (error_.empty()) error_ = check_scale(graph_.value(node_.inputs[i]), i);
    for (const float f : s.floats)  // integers can also be scales
      if (!(f > 0)) fail(std::string("its ") + what + " must be finite and above 0; export the model again");
    if (!error_.empty()) return s;
    const Shape& shape = graph_.value(node_.inputs[i]).shape;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) continue;
      if (s.axis < 0) fail(std::string("its ") + what + " varies along several axes");
      s.axis = static_cast<std::int64_t>(d) - static_cast<std::int64_t>(shape.size());
    }
    const auto n = static_cast<std::int64_t>(s.floats.size());
    s.value = graph_.add_constant(node_.name + ".scale" + std::to_string(i), Type::float32(),
                                  n == 1 ? Shape{} : Shape{n}, {s.floats, {}});
    return s;
  }

  static IntegerRange whole(Type type) { return {type, type.lowest(), type.highest()}; }

  /// Returns the range of integers of a quantiser with `bits` bits. The attributes `signed` and `narrow` decide which
  /// range it is.
  IntegerRange range_of(std::int64_t bits) {
    if (bits > kMostBits) {
      fail("quantises to " + std::to_string(bits) + " bits; at most " + std::to_string(kMostBits) +
           " are supported");
      return {};
    }
    const bool is_signed = op_.integer("signed", 1) != 0, is_narrow = op_.integer("narrow", 0) != 0;
    IntegerRange r =
        whole(is_signed ? Type::integer(static_cast<int>(bits)) : Type::natural(static_cast<int>(bits)));
    if (is_narrow) is_signed ? ++r.lowest : --r.highest;
    if (is_narrow && bits == 1) fail("has a narrow range of 1 bit, which holds only the value 0");
    return r;
  }

  /// Returns the operator that rounds as the attribute rounding_mode says. Returns an empty text for rounding half to
  /// even, because quantisers round this way.
  std::string rounding_operator(const char* otherwise) {
    std::string mode = op_.text("rounding_mode", otherwise);
    std::transform(mode.begin(), mode.end(), mode.begin(),
                   [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
    if (mode == "ROUND" || mode == "HALF_EVEN") return "";
    if (mode == "FLOOR") return "Floor";
    if (mode == "CEIL") return "Ceil";
    if (mode == "ROUND_TO_ZERO" || mode == "DOWN") return "RoundToZero";
    if (mode == "UP") return "RoundFromZero";
    if (mode == "HALF_UP") return "RoundHalfUp";
    if (mode == "HALF_DOWN") return "RoundHalfDown";
    fail("has the unknown rounding_mode '" + mode + "'");
    return "";
  }

  /// Returns the type that the attribute out_dtype names ("UINT2", "BIPOLAR"). Without this attribute, returns the
  /// smallest type that holds `lowest` and `highest`.
  Type result_type(std::int64_t lowest, std::int64_t highest) {
    Type type = Type::holding(lowest, highest);
    if (lowest >= 0 && type.bits > 1) type = Type::natural(type.bits - 1);
    if (type.bits > kMostBits) fail("gives " + to_string(type) + ", which is not supported");
    return type;
  }

  ValueId number(float f, const char* suffix) {
    return graph_.add_constant(node_.name + suffix, Type::float32(), {}, {{f}, {}});
  }

  static OnnxOperator written(const std::string& type,
                              std::map<std::string, graph::Attribute> attributes = {}) {
    OnnxOperator op{"", type, kOpset, std::move(attributes)};
    if (type.starts_with("Round") && type != "Round") op.domain = kQonnx;
    op.written = true;
    return op;
  }

  ValueId add(const std::string& type, std::vector<ValueId> inputs, const std::string& suffix) {
    return add(written(type), std::move(inputs), suffix);
  }

  ValueId add(OnnxOperator op, std::vector<ValueId> inputs, const std::string& suffix) {
    const std::string name = names_.unique(node_.name + suffix);
    const ValueId v = graph_.add_value(name, {}, {});
    out_.push_back(make_node(name, std::move(op), std::move(inputs), v, node_.sources));
    return v;
  }

  ValueId quantise(ValueId x, ValueId scale, std::int64_t axis, const IntegerRange& range) {
    const ValueId zero = zero_point(range.type, 0, ".type", graph_.value(scale).shape);
    return add(
        written("QuantizeLinear", {{"axis", axis}, {"lowest", range.lowest}, {"highest", range.highest}}),
        {x, scale, zero}, ".quantise");
  }

  ValueId count(const std::vector<std::vector<float>>& thresholds, std::int64_t axis, Type type,
                std::int64_t lowest, std::int64_t stride) {
    Constant all;
    for (const auto& list : thresholds) all.floats.insert(all.floats.end(), list.begin(), list.end());
    const Shape shape{static_cast<std::int64_t>(thresholds.size()),
                      static_cast<std::int64_t>(thresholds[0].size())};
    const ValueId t = graph_.add_constant(node_.name + ".thresholds", Type::float32(), shape, std::move(all));
    OnnxOperator op = written("Threshold", {{"axis", axis}, {"lowest", lowest}, {"stride", stride}});
    op.domain = kQonnx;
    return add(std::move(op), {node_.inputs[0], t, zero_point(type, 0, ".type", {})}, ".count");
  }

  void dequantise(ValueId q, const Scale& scale, Type type, std::int64_t zero) {
    const ValueId z = zero_point(type, zero, ".zero_point", graph_.value(scale.value).shape);
    out_.push_back(make_node(node_.name, written("DequantizeLinear", {{"axis", scale.axis}}),
                             {q, scale.value, z}, node_.outputs[0], node_.sources));
  }

  ValueId zero_point(Type type, std::int64_t zero, const char* suffix, const Shape& shape) {
    Constant c;
    c.integers.assign(static_cast<std::size_t>(elements(shape)), zero);
    return graph_.add_constant(node_.name + suffix, type, shape, std::move(c));
  }

  Graph& graph_;
  const Node& node_;
  const OnnxOperator& op_;
  graph::Names& names_;
  std::vector<Node>& out_;
  std::string error_;
};

template <std::string (Rewriter::*rewrite)()>
std::string rewrite_node(Graph& graph, const Node& node, graph::Names& names, std::vector<Node>& out) {
  if (!has_input(node, 0)) return "lacks input 1";
  return (Rewriter(graph, node, names, out).*rewrite)();
}

// Threshold is the internal operator that counts thresholds: (x, thresholds [channels or 1, steps], type).

std::string infer_threshold(Inference& c) {
  if (!c.op.written) return "is no operator of its domain";
  if (std::string why = same_floats(c); !why.empty()) return why;
  const std::int64_t channels = c.shape_of(1)[0];
  const auto axis = axis_in(c.op.integer("axis", 1), c.shape.size());
  if (channels != 1 && (!axis || c.shape[*axis] != channels))
    return "has thresholds for " + std::to_string(channels) + " channels, its input is " + to_string(c.shape);
  c.type = c.in(2).type;
  return {};
}

Step step_of(const OnnxOperator& op, const Value& thresholds) {
  const auto steps = static_cast<std::size_t>(thresholds.shape[1]);
  std::vector<std::vector<float>> lists;
  for (std::size_t c = 0; c < static_cast<std::size_t>(thresholds.shape[0]); ++c) {
    const auto first = thresholds.constant->floats.begin() + static_cast<std::ptrdiff_t>(c * steps);
    lists.emplace_back(first, first + static_cast<std::ptrdiff_t>(steps));
  }
  return Step::count_thresholds(std::move(lists), op.integer("lowest", 0), op.integer("stride", 1));
}

std::optional<Constant> fold_threshold(const OnnxOperator& op, const Inputs& in, const Value& output) {
  const Chain chain{{step_of(op, *in[1])}};
  graph::AlongAxis channel;
  if (chain.channels() > 1) channel = {output.shape, *axis_in(op.integer("axis", 1), output.shape.size())};
  Constant c;
  for (std::size_t i = 0; i < in[0]->constant->floats.size(); ++i)
    c.integers.push_back(
        chain.evaluate(graph::Number{true, 0, in[0]->constant->floats[i]}, channel.index(i)).integer);
  return c;
}

Outcome lower_threshold(Site& site) {
  Elementwise e{{{step_of(site.op, site.in(1))}}, -1};
  const auto axis = axis_in(site.op.integer("axis", 1), site.in(0).shape.size());
  if (e.chain.channels() > 1) e.axis = static_cast<std::int64_t>(*axis);
  return site.give(std::move(e), {site.node.inputs[0]});
}

constexpr Operator rewritten(const char* type, Rewrite rewrite, const char* limits) {
  return {.type = type, .domain = kQonnx, .rewrite = rewrite, .limits = limits};
}

constexpr Operator kRows[] = {
    rewritten("Quant", rewrite_node<&Rewriter::quant>,
              "1 to 16 bits (hardware: at most 8), signed or not, narrow or not; "
              "scale and zero point are constants, scalar or along one axis; "
              "the section \"QONNX and FINN\" lists the rounding modes"),
    rewritten("IntQuant", rewrite_node<&Rewriter::quant>, "as Quant"),
    rewritten("BipolarQuant", rewrite_node<&Rewriter::bipolar_quant>, "the scale is constant"),
    rewritten("Trunc", rewrite_node<&Rewriter::trunc>,
              "versions 1 and 2; scale and zero point are constants, as for Quant"),
    rewritten("MultiThreshold", rewrite_node<&Rewriter::multi_threshold>,
              "the thresholds are constants, common to all channels or separate for each channel; "
              "out_bias is a multiple of half the out_scale"),
    {.type = "Threshold",
     .domain = kQonnx,
     .infer = infer_threshold,
     .fold = fold_threshold,
     .lower_elementwise = lower_threshold}};

}  // namespace

std::span<const Operator> qonnx() {
  return kRows;
}

}  // namespace millrace::compiler::operators
