// The table entries of operators in QOperator form, whose scales are inputs. The importer replaces them by the
// equivalent float operators between dequantisers and quantisers, so that all passes see only the QDQ form.
#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

constexpr Operator row(const char* type, const char* domain, Expansion expansion) {
  return {.type = type, .domain = domain, .expansion = expansion};
}

constexpr Operator kQOperators[] = {
    row("QLinearConv", kOnnx, {.type = "Conv", .operands = 2, .has_weights = true, .result = 6, .bias = 8}),
    row("QLinearMatMul", kOnnx, {.type = "MatMul", .operands = 2, .has_weights = true, .result = 6}),
    row("QGemm", kMicrosoft, {.type = "Gemm", .operands = 2, .has_weights = true, .result = 7, .bias = 6}),
    row("QLinearAdd", kMicrosoft, {.type = "Add", .operands = 2, .result = 6}),
    row("QLinearSigmoid", kMicrosoft, {.type = "Sigmoid", .result = 3}),
    row("QLinearLeakyRelu", kMicrosoft, {.type = "LeakyRelu", .result = 3}),
    row("QLinearAveragePool", kMicrosoft, {.type = "AveragePool", .result = 3}),
    row("QLinearGlobalAveragePool", kMicrosoft, {.type = "GlobalAveragePool", .result = 3}),
    row("QLinearMul", kMicrosoft, {.type = "Mul", .operands = 2, .result = 6}),
    row("QLinearSoftmax", kMicrosoft, {.type = "Softmax", .result = 3}),
    row("QLinearConcat", kMicrosoft, {.type = "Concat", .first = 2, .operands = 0, .result = 0})};

/// Replaces one node in QOperator form by nodes in QDQ form.
class Expander {
 public:
  Expander(Graph& graph, const Node& node, graph::Names& names, std::vector<Node>& out)
      : graph_(graph), node_(node), op_(std::get<OnnxOperator>(node.operation)), names_(names), out_(out) {}

  std::string expand(const Expansion& e) {
    std::size_t count = e.operands;
    if (count == 0) {
      count = node_.inputs.size() / 3;
      if (count == 0 || node_.inputs.size() != e.first + 3 * count) return "has the wrong number of inputs";
    }
    const bool is_quantised = !e.has_weights || has_input(node_, e.result) || has_input(node_, e.result + 1);
    // Only pooling operators for images have the attribute channels_last.
    const bool is_channels_last = e.operands == 1 && op_.integer("channels_last", 0) != 0;
    const std::int64_t weight_axis = op_.type == "QLinearConv" || op_.integer("transB", 0) != 0 ? 0 : -1;
    std::vector<ValueId> operands;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = e.first + 3 * k;
      const bool is_weights = e.has_weights && k == 1;
      need(i);
      need_scale(i + 1, !is_weights);
      if (has_input(node_, i + 2)) need(i + 2, !is_weights);
      if (!error_.empty()) return error_;
      const std::string suffix = ".operand" + std::to_string(k);
      const ValueId x = is_channels_last ? transpose(input(i), {0, 3, 1, 2}, suffix) : input(i);
      operands.push_back(dequantise({x, input(i + 1), input(i + 2)}, is_weights ? weight_axis : 0, suffix));
    }
    if (e.bias != 0 && has_input(node_, e.bias))
      operands.push_back(dequantise({input(e.bias), bias_scale()}, -1, ".bias"));
    OnnxOperator op{"", e.type, kOpset, op_.attributes};
    // The meaning of a Softmax's attribute `axis` depends on the operator set. QLinearSoftmax names the operator set in
    // its attribute `opset`.
    if (const auto set = op.attributes.extract("opset")) op.opset = op_.integer("opset", kOpset);
    op.attributes.erase("channels_last");
    op.qlinear = !e.has_weights || !is_quantised;
    if (!is_quantised) {
      out_.push_back(make_node(node_.name, std::move(op), operands, node_.outputs[0], node_.sources));
      return {};
    }
    need_scale(e.result, true);
    need(e.result + 1, true);
    if (!error_.empty()) return error_;
    const ValueId result = graph_.add_value(node_.name + ".result", {}, {});
    out_.push_back(make_node(node_.name, std::move(op), operands, result, node_.sources));
    const ValueId quantised =
        is_channels_last ? graph_.add_value(node_.name + ".quantised", {}, {}) : node_.outputs[0];
    out_.push_back(make_node(names_.unique(node_.name + ".quantise"),
                             OnnxOperator{"", "QuantizeLinear", kOpset, {}, true},
                             {result, input(e.result), input(e.result + 1)}, quantised, node_.sources));
    if (is_channels_last)
      out_.push_back(make_node(names_.unique(node_.name + ".transpose"), transposition({0, 2, 3, 1}),
                               {quantised}, node_.outputs[0], node_.sources));
    return error_;
  }

 private:
  static constexpr std::int64_t kOpset = 13;

  ValueId input(std::size_t i) const { return i < node_.inputs.size() ? node_.inputs[i] : graph::kNoValue; }

  /// Checks that input `i` exists and, if `is_one_number`, that it is not a constant with several elements.
  void need(std::size_t i, bool is_one_number = false) {
    const Constant* c = constant_input(graph_, node_, i);
    if (!error_.empty()) return;
    if (!has_input(node_, i))
      error_ = "lacks input " + std::to_string(i + 1);
    else if (is_one_number && c != nullptr && c->size() != 1)
      error_ = "has a scale or zero point (input " + std::to_string(i + 1) + ") that is not one number";
  }

  /// Checks input `i` like need(), and that it can be a scale.
  void need_scale(std::size_t i, bool is_one_number) {
    need(i, is_one_number);
    if (error_.empty()) error_ = check_scale(graph_.value(node_.inputs[i]), i);
  }

  ValueId add(const char* type, std::map<std::string, graph::Attribute> attributes,
              std::vector<ValueId> inputs, const std::string& suffix) {
    const std::string name = names_.unique(node_.name + suffix);
    const ValueId v = graph_.add_value(name, {}, {});
    out_.push_back(make_node(name, OnnxOperator{"", type, kOpset, std::move(attributes), true},
                             std::move(inputs), v, node_.sources));
    return v;
  }

  static OnnxOperator transposition(std::vector<std::int64_t> perm) {
    return {"", "Transpose", kOpset, {{"perm", std::move(perm)}}};
  }

  ValueId transpose(ValueId x, std::vector<std::int64_t> perm, const std::string& suffix) {
    const std::string name = names_.unique(node_.name + suffix + ".transpose");
    const ValueId v = graph_.add_value(name, {}, {});
    out_.push_back(make_node(name, transposition(std::move(perm)), {x}, v, node_.sources));
    return v;
  }

  ValueId dequantise(std::vector<ValueId> inputs, std::int64_t axis, const std::string& suffix) {
    return add("DequantizeLinear", {{"axis", axis}}, std::move(inputs), suffix);
  }

  /// Adds the scale of the bias. It must be the scale of the accumulator: alpha * scale of the input * scale of the
  /// weights.
  ValueId bias_scale() {
    ValueId scale = add("Mul", {}, {input(1), input(4)}, ".bias_scale");
    if (const float alpha = op_.real("alpha", 1.0F); alpha != 1.0F) {
      const ValueId factor = graph_.add_constant(node_.name + ".alpha", Type::float32(), {}, {{alpha}, {}});
      scale = add("Mul", {}, {factor, scale}, ".bias_scale");
    }
    return scale;
  }

  Graph& graph_;
  const Node& node_;
  const OnnxOperator& op_;
  graph::Names& names_;
  std::vector<Node>& out_;
  std::string error_;
};

}  // namespace

std::span<const Operator> qoperators() {
  return kQOperators;
}

std::string expand(Graph& graph, const Node& node, graph::Names& names, std::vector<Node>& out) {
  const Operator* row = find(std::get<OnnxOperator>(node.operation));
  if (row != nullptr && row->rewrite != nullptr) return row->rewrite(graph, node, names, out);
  if (row != nullptr && row->expansion.type != nullptr)
    return Expander(graph, node, names, out).expand(row->expansion);
  out.push_back(node);
  return {};
}

}  // namespace millrace::compiler::operators
