#include "compiler/front/export.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <set>

namespace millrace::compiler {
namespace {

using graph::Constant;
using graph::Graph;
using graph::kNoValue;
using graph::Node;
using graph::OnnxOperator;
using graph::Shape;
using graph::Type;
using graph::ValueId;

constexpr std::int64_t kOldestWritten = 13;
constexpr std::int64_t kFirstWithInt4 = 21;
constexpr std::int64_t kIrVersion = 8,
                       kIrVersionOfInt4 = 10;  // of the operator sets 13 to 18, and from 21 on
constexpr std::size_t kMostBytes = std::numeric_limits<int>::max();

std::int32_t onnx_type(Type type) {
  using T = onnx::TensorProto;
  if (type.is_float()) return T::FLOAT;
  if (type.kind == Type::Kind::kBool) return T::BOOL;
  const bool is_signed = type.kind == Type::Kind::kSigned;
  switch (type.bits) {
    case 4:
      return is_signed ? 22 : 21;  // INT4 and UINT4, which the installed library may not name
    case 16:
      return is_signed ? T::INT16 : T::UINT16;
    case 32:
      return is_signed ? T::INT32 : T::UINT32;
    case 64:
      return is_signed ? T::INT64 : T::UINT64;
    default:
      return is_signed ? T::INT8 : T::UINT8;
  }
}

std::string raw_data(const Constant& c, Type type) {
  std::string raw;
  if (type.is_float()) {
    raw.resize(c.floats.size() * sizeof(float));
    if (!raw.empty()) std::memcpy(raw.data(), c.floats.data(), raw.size());
    return raw;
  }
  if (type.bits == 4) {
    raw.resize((c.integers.size() + 1) / 2);
    for (std::size_t i = 0; i < c.integers.size(); ++i)
      raw[i / 2] = static_cast<char>(raw[i / 2] | ((c.integers[i] & 15) << (i % 2 * 4)));
    return raw;
  }
  const std::size_t bytes = type.kind == Type::Kind::kBool ? 1 : std::max<std::size_t>(1, type.bits / 8U);
  raw.resize(c.integers.size() * bytes);
  for (std::size_t i = 0; i < c.integers.size(); ++i)
    std::memcpy(raw.data() + i * bytes, &c.integers[i], bytes);
  return raw;
}

void describe(const graph::Signature& signature, onnx::ValueInfoProto& info) {
  info.set_name(signature.name);
  auto* const tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(onnx_type(signature.type));
  tensor->mutable_shape();
  for (const std::int64_t extent : signature.shape) tensor->mutable_shape()->add_dim()->set_dim_value(extent);
}

void set_attribute(const std::string& name, const graph::Attribute& value, onnx::AttributeProto& out) {
  using A = onnx::AttributeProto;
  out.set_name(name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    out.set_type(A::INT);
    out.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&value)) {
    out.set_type(A::FLOAT);
    out.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    out.set_type(A::STRING);
    out.set_s(*text);
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    out.set_type(A::INTS);
    for (const std::int64_t i : *integers) out.add_ints(i);
  } else {
    out.set_type(A::FLOATS);
    for (const float f : std::get<std::vector<float>>(value)) out.add_floats(f);
  }
}

/// Replaces an attribute of the node by a constant, which becomes the node's input number `input`.
void make_input(Graph& graph, Node& node, const char* attribute, std::size_t input) {
  auto& op = std::get<OnnxOperator>(node.operation);
  const auto it = op.attributes.find(attribute);
  if (it == op.attributes.end()) return;
  Constant c;
  Type type = Type::integer(64);
  Shape shape;
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&it->second)) {
    c.integers = *integers;
    shape = {static_cast<std::int64_t>(integers->size())};
  } else if (const auto* real = std::get_if<float>(&it->second)) {
    c.floats = {*real};
    type = Type::float32();
  } else {
    return;
  }
  op.attributes.erase(it);
  if (node.inputs.size() <= input) node.inputs.resize(input + 1, kNoValue);
  node.inputs[input] = graph.add_constant(node.name + "." + attribute, type, shape, std::move(c));
}

/// Rewrites a Softmax of an old operator set, which normalises over its axis and all later axes together. Returns why
/// this is impossible, or an empty text.
std::string raise_softmax(const Graph& graph, const Node& node, OnnxOperator& op) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  const auto axis = graph::axis_in(op.integer("axis", 1), shape.size());
  if (!axis) return "its axis is outside its input";
  if (std::any_of(shape.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, shape.end(),
                  [](std::int64_t extent) { return extent != 1; }))
    return "the operator works on several axes at once, which operator set 13 cannot express";
  op.attributes["axis"] = static_cast<std::int64_t>(*axis);
  return {};
}

/// Rewrites Resize and Upsample of operator set 10 and below.
void raise_resize(Node& node, OnnxOperator& op) {
  op.type = "Resize";
  op.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  op.attributes["nearest_mode"] = std::string("floor");
  if (node.inputs.size() > 1) node.inputs.insert(node.inputs.begin() + 1, kNoValue);
}

/// Rewrites a node of an older operator set for set 13. Returns why that is impossible, or an empty text.
std::string raise(Graph& graph, Node& node) {
  auto& op = std::get<OnnxOperator>(node.operation);
  if (!op.domain.empty() || op.opset >= kOldestWritten) return {};
  static const std::set<std::string> kAxes = {"Squeeze", "Unsqueeze", "ReduceSum"};
  if (kAxes.contains(op.type)) make_input(graph, node, "axes", 1);
  if (op.type == "Split") make_input(graph, node, "split", 1);
  if (op.type == "Clip" && op.opset < 11) {
    make_input(graph, node, "min", 1);
    make_input(graph, node, "max", 2);
  }
  if (op.type == "Pad" && op.opset < 11) {
    make_input(graph, node, "pads", 1);
    make_input(graph, node, "value", 2);
  }
  if (op.type == "Slice" && op.opset < 10) {
    make_input(graph, node, "starts", 1);
    make_input(graph, node, "ends", 2);
    make_input(graph, node, "axes", 3);
  }
  if (op.type == "TopK" && op.opset < 10) return "operator set 13 has another form of it";
  if ((op.type == "Resize" && op.opset < 11) || op.type == "Upsample") raise_resize(node, op);
  if (op.type == "BatchNormalization") op.attributes.erase("spatial");
  if (op.type == "Softmax" || op.type == "LogSoftmax" || op.type == "Hardmax")
    if (std::string why = raise_softmax(graph, node, op); !why.empty()) return why;
  return {};
}

}  // namespace

Result<std::vector<std::byte>> export_onnx(const Graph& given) {
  Graph graph = given;
  std::map<std::string, std::int64_t> opsets{{"", kOldestWritten}};
  for (const Node& node : graph.nodes) {
    const auto& op = std::get<OnnxOperator>(node.operation);
    opsets[op.domain] = std::max({opsets[op.domain], op.opset, std::int64_t{1}});
  }
  for (Node& node : graph.nodes)
    if (std::string why = raise(graph, node); !why.empty())
      return Error(ErrorCode::kUnsupported, graph::operation_name(node.operation) + " '" + node.name +
                                                "' cannot be written: " + why +
                                                "; export the model with operator set 13 or newer");
  onnx::ModelProto model;
  model.set_ir_version(opsets[""] >= kFirstWithInt4 ? kIrVersionOfInt4 : kIrVersion);
  model.set_producer_name("millrace");
  for (const auto& [domain, version] : opsets) {
    auto* const set = model.add_opset_import();
    set->set_domain(domain);
    set->set_version(version);
  }
  auto& proto = *model.mutable_graph();
  proto.set_name(graph.name.empty() ? "model" : graph.name);
  for (const auto& signature : graph.input_signatures) describe(signature, *proto.add_input());
  for (const auto& signature : graph.output_signatures) describe(signature, *proto.add_output());
  std::set<ValueId> written;
  for (const Node& node : graph.nodes) {
    auto& out = *proto.add_node();
    const auto& op = std::get<OnnxOperator>(node.operation);
    out.set_name(node.name);
    out.set_op_type(op.type);
    if (!op.domain.empty()) out.set_domain(op.domain);
    for (const ValueId v : node.inputs) {
      out.add_input(v == kNoValue ? std::string() : graph.value(v).name);
      if (v == kNoValue || graph.value(v).constant == nullptr || !written.insert(v).second) continue;
      const graph::Value& value = graph.value(v);
      auto& tensor = *proto.add_initializer();
      tensor.set_name(value.name);
      tensor.set_data_type(onnx_type(value.type));
      for (const std::int64_t extent : value.shape) tensor.add_dims(extent);
      tensor.set_raw_data(raw_data(*value.constant, value.type));
    }
    // The import made two nodes of a TopK. The node here gives the indices, which are the second output of ONNX's TopK.
    const bool gives_indices = op.type == "TopK" && op.has("indices");
    if (gives_indices) out.add_output(node.name + ".values");
    for (const ValueId v : node.outputs) out.add_output(v == kNoValue ? std::string() : graph.value(v).name);
    for (const auto& [name, value] : op.attributes)
      if (!gives_indices || name != "indices") set_attribute(name, value, *out.add_attribute());
  }
  if (model.ByteSizeLong() > kMostBytes)
    return Error(ErrorCode::kUnsupported,
                 "the exported model would be longer than 2 GiB, the maximum for an ONNX file");
  std::vector<std::byte> bytes(model.ByteSizeLong());
  model.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

}  // namespace millrace::compiler
