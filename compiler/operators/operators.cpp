#include "compiler/operators/operators.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "compiler/operators/choices.hpp"
#include "compiler/operators/einsum.hpp"
#include "compiler/operators/interpolation.hpp"
#include "compiler/operators/pad.hpp"
#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

/// Returns the operator table. The key is (domain, type).
const std::map<std::pair<std::string_view, std::string_view>, const Operator*>& table() {
  static const auto kTable = [] {
    std::map<std::pair<std::string_view, std::string_view>, const Operator*> rows;
    for (const auto family : {activations, arithmetic, choices, einsums, moves, pads, pools, products, qonnx,
                              qoperators, quantisers, selections, transposed, host})
      for (const Operator& row : family()) rows.emplace(std::pair(row.domain, row.type), &row);
    return rows;
  }();
  return kTable;
}

/// The names of all attributes of one type. An attribute has the same type in every operator.
struct AttributeNames {
  const char* type;
  std::set<std::string> names;
};

/// Returns the known attributes, grouped by type in the order of graph::Attribute.
const std::vector<AttributeNames>& known_attributes() {
  static const std::vector<AttributeNames> kNames = {
      {"an integer",
       {"allowzero",
        "antialias",
        "axis",
        "block_size",
        "blocksize",
        "ceil_mode",
        "channels_last",
        "count_include_pad",
        "end",
        "exclude_outside",
        "exclusive",
        "group",
        "k",
        "keepdims",
        "largest",
        "narrow",
        "noop_with_empty_axes",
        "num_groups",
        "num_outputs",
        "opset",
        "output_dtype",
        "p",
        "precision",
        "reverse",
        "saturate",
        "seed",
        "select_last_index",
        "signed",
        "size",
        "sorted",
        "spatial",
        "start",
        "stash_type",
        "storage_order",
        "to",
        "training_mode",
        "transA",
        "transB",
        "upper"}},
      {"a float",
       {"alpha", "beta", "bias", "cubic_coeff_a", "epsilon", "extrapolation_value", "gamma", "lambd", "max",
        "min", "momentum", "out_bias", "out_scale", "ratio", "value"}},
      {"a string",
       {"approximate", "auto_pad", "coordinate_transformation_mode", "data_layout", "equation",
        "keep_aspect_ratio_policy", "mode", "nearest_mode", "out_dtype", "rounding_mode"}},
      {"a list of integers",
       {"axes", "dilations", "ends", "kernel_shape", "output_padding", "output_shape", "pads", "perm",
        "shape", "split", "starts", "strides"}},
      {"a list of floats", {"scales"}}};
  return kNames;
}

/// Whether a float attribute can be represented with integers, unlike NaN and infinity. Only Clip may have an infinite
/// bound, because an infinite bound has no effect.
bool is_sound(const OnnxOperator& op, const std::string& attribute, float number) {
  if (std::isfinite(number)) return true;
  if (op.type != "Clip" || std::isnan(number)) return false;
  return (attribute == "min" && number < 0) || (attribute == "max" && number > 0);
}

/// Checks attributes that have no default value, and names that must come from a list.
std::string check_values(const OnnxOperator& op) {
  static const std::map<std::string, const char*> kRequired = {{"Cast", "to"},
                                                               {"Concat", "axis"},
                                                               {"DepthToSpace", "blocksize"},
                                                               {"QLinearConcat", "axis"},
                                                               {"SpaceToDepth", "blocksize"}};
  static const std::set<std::string> kAutoPads = {"", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
  const auto required = kRequired.find(op.type);
  if (required != kRequired.end() && !op.has(required->second))
    return "the attribute '" + std::string(required->second) + "' is missing; export the model again";
  if (const std::string pad = op.text("auto_pad", ""); !kAutoPads.contains(pad))
    return "has the unknown auto_pad '" + pad + "'; use NOTSET, VALID, SAME_UPPER or SAME_LOWER";
  return {};
}

/// Returns why a well-known operator is not supported.
const char* known_reason(const std::string& type) {
  constexpr const char* kControl =
      "control flow is not supported, because a dataflow pipeline computes every node for every frame";
  constexpr const char* kRecurrent = "recurrent operators are not supported";
  static const std::map<std::string, const char*> kReasons = {
      {"DynamicQuantizeLinear",
       "its scale depends on the data of each frame; quantise the model statically (QDQ or QOperator)"},
      {"FloatQuant",
       "it quantises to floats of few bits, but hardware computes with integers; use Quant instead"},
      {"If", kControl},
      {"Loop", kControl},
      {"Scan", kControl},
      {"LSTM", kRecurrent},
      {"GRU", kRecurrent},
      {"RNN", kRecurrent}};
  const auto it = kReasons.find(type);
  return it == kReasons.end() ? nullptr : it->second;
}

}  // namespace

namespace {

/// Whether the operator is internal: only the importer makes it, and no ONNX file contains it.
bool is_internal(const Operator& row) {
  return row.domain == std::string_view(kQonnx) && row.rewrite == nullptr;
}

}  // namespace

std::vector<ListedOperator> listed_operators() {
  std::vector<ListedOperator> list;
  for (const auto& [key, row] : table()) {
    const bool host_row = is_host_only(*row);
    // Leave out the host's implementation of a FINN operator, because the list already contains the FINN operator under
    // the same name.
    if (is_internal(*row) || (host_row && table().contains({kQonnx, key.second}))) continue;
    ListedOperator made{row->type, row->domain, Computed::kNo, false,
                        row->limits == nullptr ? "" : row->limits};
    const bool expands = row->expansion.type != nullptr;
    const auto float_form = expands ? table().find({kOnnx, row->expansion.type}) : table().end();
    const bool hosted = row->hosted || (expands && float_form->second->hosted);
    const bool lowers =
        row->lower_elementwise != nullptr || row->lower_qdq != nullptr || expands || row->rewrite != nullptr;
    if (!host_row && !hosted)
      made.hardware = lowers || row->fold == nullptr ? Computed::kYes : Computed::kNoWork;
    made.host = hosted || (row->domain == std::string_view(kOnnx) && kernels::host::supports(row->type));
    if (expands) made.limits = "as " + std::string(row->expansion.type) + " between quantisers";
    list.push_back(std::move(made));
  }
  return list;
}

std::string operator_table() {
  static constexpr const char* kComputed[] = {"no", "yes", "no work"};
  std::string text = "| operator | hardware | host | forms and limits |\n| --- | --- | --- | --- |\n";
  for (const ListedOperator& op : listed_operators())
    text += "| `" + op.type + "`" + (op.domain.empty() ? "" : " (" + op.domain + ")") + " | " +
            kComputed[static_cast<std::size_t>(op.hardware)] + " | " + (op.host ? "yes" : "no") + " | " +
            op.limits + " |\n";
  return text;
}

const Operator* find(const OnnxOperator& op) {
  const bool older = op.domain == "onnx.brevitas" || op.domain == "finn.custom_op.general";
  const auto row = table().find({older ? kQonnx : std::string_view(op.domain), op.type});
  return row == table().end() ? nullptr : row->second;
}

bool is_host_only(const Operator& row) {
  return row.infer == infer_host;
}

bool needs_quantiser(const OnnxOperator& op) {
  const Operator* row = find(op);
  return row != nullptr && (row->computes || is_host_only(*row) || is_linear(op));
}

std::string why_unsupported(const OnnxOperator& op) {
  if (find(op) != nullptr) return {};
  if (const char* reason = known_reason(op.type)) return reason;
  if (!op.domain.empty() && op.domain != kMicrosoft)
    return "the operator domain '" + op.domain + "' is not known";
  return "not supported";
}

std::string supported_operators() {
  std::string names;
  for (const auto& [key, row] : table())
    if (!is_internal(*row) && (key.first == kOnnx || !table().contains({kOnnx, key.second})))
      names += (names.empty() ? "" : ", ") + std::string(row->type);
  return names;
}

std::string check_attributes(const OnnxOperator& op) {
  for (const auto& [name, value] : op.attributes) {
    const auto& known = known_attributes();
    const auto kind = std::find_if(known.begin(), known.end(),
                                   [&, &name = name](const auto& k) { return k.names.contains(name); });
    if (kind == known.end()) return "attribute '" + name + "' is not known";
    if (value.index() != static_cast<std::size_t>(kind - known.begin()))
      return "attribute '" + name + "' must be " + kind->type;
    if (const auto* number = std::get_if<float>(&value); number != nullptr && !is_sound(op, name, *number))
      return "attribute '" + name + "' is " + (std::isnan(*number) ? "NaN" : "infinite") +
             "; export the model with finite numbers";
  }
  return check_values(op);
}

bool is_quantiser(const OnnxOperator& op) {
  static const std::set<std::string> kOthers = {"ConvInteger", "MatMulInteger", "QGemm", "Quant",
                                                "IntQuant",    "BipolarQuant",  "Trunc", "MultiThreshold"};
  return op.type.find("QuantizeLinear") != std::string::npos || op.type == "DequantizeLinear" ||
         op.type.find("QLinear") != std::string::npos || kOthers.contains(op.type);
}

std::optional<Type> type_of(std::int64_t onnx_number) {
  static const std::map<std::int64_t, Type> kTypes = {
      {1, Type::float32()},    {2, Type::natural(8)},  {3, Type::integer(8)},  {4, Type::natural(16)},
      {5, Type::integer(16)},  {6, Type::integer(32)}, {7, Type::integer(64)}, {9, {Type::Kind::kBool, 8}},
      {12, Type::natural(32)}, {21, Type::natural(4)}, {22, Type::integer(4)}, {25, Type::natural(2)},
      {26, Type::integer(2)}};
  const auto it = kTypes.find(onnx_number);
  return it == kTypes.end() ? std::nullopt : std::optional<Type>(it->second);
}

std::string infer(graph::Graph& graph, const Node& node) {
  const auto& op = std::get<OnnxOperator>(node.operation);
  const Operator* row = find(op);
  if (row == nullptr || row->infer == nullptr) return "has no shape rule";
  Inference c{graph, node, op, {}, {}};
  if (std::string why = row->infer(c); !why.empty()) {
    // The operator's own rule refuses a node that hardware cannot compute. The host's rule then computes the shape.
    Inference on_host{graph, node, op, {}, {}};
    if (!infer_host(on_host).empty()) return why;
    c.type = on_host.type;
    c.shape = on_host.shape;
  }
  std::int64_t total = 1;
  for (const std::int64_t d : c.shape)
    if (d < 0 || d > kMostElements || (total *= d) > kMostElements)
      return "would give a tensor of " + to_string(c.shape) +
             ", which is too large: at most 2^27 elements are allowed";
  if (total == 0) return "gives an empty tensor of " + to_string(c.shape);
  Value& output = graph.value(node.outputs[0]);
  output.type = c.type;
  output.shape = c.shape;
  return {};
}

std::optional<graph::Constant> fold(const graph::Graph& graph, const Node& node, std::int64_t limit) {
  const OnnxOperator* const onnx = graph::onnx_of(node);
  if (onnx == nullptr) return std::nullopt;  // a plugin computes the node
  const OnnxOperator& op = *onnx;
  const Value& output = graph.value(node.outputs[0]);
  const Operator* row = find(op);
  if (row == nullptr || row->fold == nullptr || elements(output.shape) > limit) return std::nullopt;
  if (!has_input(node, 0)) return std::nullopt;
  const bool reads_data = op.type != "Shape";
  Inputs inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    inputs.push_back(has_input(node, i) ? &graph.value(node.inputs[i]) : nullptr);
    if (reads_data && inputs[i] != nullptr && inputs[i]->constant == nullptr) return std::nullopt;
  }
  return row->fold(op, inputs, output);
}

}  // namespace millrace::compiler::operators
