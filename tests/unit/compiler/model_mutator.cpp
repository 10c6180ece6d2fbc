#include "model_mutator.hpp"

#include <google/protobuf/message.h>

#include <cmath>
#include <limits>

namespace millrace::tests {
namespace {

namespace pb = google::protobuf;

/// Lists `message` and all messages below it. Leaves out those that lie deeper than `levels`.
void collect(pb::Message& message, int levels, std::vector<pb::Message*>& found) {
  found.push_back(&message);
  if (levels == 0) return;
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) collect(*reflection.MutableMessage(&message, field), levels - 1, found);
    for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i)
      collect(*reflection.MutableRepeatedMessage(&message, field, i), levels - 1, found);
  }
}

}  // namespace

/// Returns a random element of a repeated field, or null if the field is empty.
template <class List>
auto* ModelMutator::any_of(List* list) {
  using Element = typename List::value_type;
  return list->empty() ? static_cast<Element*>(nullptr)
                       : list->Mutable(static_cast<int>(below(static_cast<std::size_t>(list->size()))));
}

void ModelMutator::change(onnx::GraphProto& g) {
  onnx::TensorProto* tensor = any_of(g.mutable_initializer());
  onnx::NodeProto* node = any_of(g.mutable_node());
  const std::size_t kind = below(10);
  if (kind == 9 && g.input_size() > 0) return set_graph_input(g);
  if (kind <= 4 && tensor != nullptr) {
    if (kind == 0) return set_dims(*tensor);
    if (kind <= 2) return resize_tensor(*tensor);
    if (kind == 3) return set_data(*tensor);
    return tensor->set_data_type(static_cast<int>(pick({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 16, 21, 22})));
  }
  if (node == nullptr) return;
  if (kind == 5) return set_attribute(*node);
  if (kind == 6) return add_attribute(*node);
  if (kind == 7) return set_input(g, *node);
  static const std::vector<std::string> kTypes = {"Conv",
                                                  "MatMul",
                                                  "Gemm",
                                                  "Relu",
                                                  "LeakyRelu",
                                                  "HardSwish",
                                                  "Add",
                                                  "Mul",
                                                  "MaxPool",
                                                  "Flatten",
                                                  "AveragePool",
                                                  "Transpose",
                                                  "Softmax",
                                                  "Clip",
                                                  "QuantizeLinear",
                                                  "DequantizeLinear",
                                                  "ConvInteger",
                                                  "Cast",
                                                  "MatMulInteger",
                                                  "Squeeze",
                                                  "Concat",
                                                  "Reshape",
                                                  "ConvTranspose",
                                                  "Slice",
                                                  "Split",
                                                  "Gather",
                                                  "Expand",
                                                  "Tile",
                                                  "Resize",
                                                  "Pad",
                                                  "DepthToSpace",
                                                  "SpaceToDepth",
                                                  "ReduceMean",
                                                  "ReduceMax",
                                                  "GlobalMaxPool",
                                                  "BatchNormalization",
                                                  "PRelu",
                                                  "Min",
                                                  "Max",
                                                  "Sub",
                                                  "Div",
                                                  "Pow",
                                                  "Shape",
                                                  "LayerNormalization",
                                                  "Unsqueeze",
                                                  "Identity",
                                                  "Sigmoid",
                                                  "Erf",
                                                  "ConstantOfShape"};
  node->set_op_type(text(kTypes));
}

std::int64_t ModelMutator::number() {
  return pick({0, 1, 2, 3, 4, 5, 7, -1, -2, 127, 128, 255, -128, 65536, std::int64_t{1} << 31,
               std::int64_t{1} << 40, INT64_MIN, INT64_MAX});
}

float ModelMutator::real() {
  return std::vector<float>{0, -0.0F, -1, 1, 0.5F, 1e-40F, 1e30F, -1e30F, INFINITY, NAN}[below(10)];
}

void ModelMutator::set_dims(onnx::TensorProto& t) {
  if (t.dims_size() == 0 || below(4) == 0) return t.add_dims(pick({0, 1, 1, 2}));
  if (below(4) == 0) return t.mutable_dims()->RemoveLast();
  t.set_dims(static_cast<int>(below(static_cast<std::size_t>(t.dims_size()))), number());
}

/// Changes the tensor's dimensions and its data together, so that the tensor itself stays valid.
void ModelMutator::resize_tensor(onnx::TensorProto& t) {
  t.clear_dims();
  std::size_t count = 1;
  for (std::size_t rank = below(4); rank > 0; --rank) {
    t.add_dims(pick({0, 1, 1, 2, 3, 4, 5, 8}));
    count *= static_cast<std::size_t>(t.dims(t.dims_size() - 1));
  }
  const std::string raw = t.raw_data();
  const std::vector<std::int32_t> small(t.int32_data().begin(), t.int32_data().end());
  const std::vector<std::int64_t> large(t.int64_data().begin(), t.int64_data().end());
  t.clear_raw_data();
  t.clear_int32_data();
  t.clear_int64_data();
  for (std::size_t i = 0; i < count; ++i) {
    if (!small.empty()) t.add_int32_data(small[i % small.size()]);
    if (!large.empty()) t.add_int64_data(large[i % large.size()]);
    if (raw.size() >= 4) t.mutable_raw_data()->append(raw, i % (raw.size() / 4) * 4, 4);
  }
}

void ModelMutator::set_data(onnx::TensorProto& t) {
  if (t.int32_data_size() > 0) {
    t.set_int32_data(
        static_cast<int>(below(static_cast<std::size_t>(t.int32_data_size()))),
        static_cast<std::int32_t>(pick({0, 1, -1, 127, -128, 128, 255, 256, INT32_MAX, INT32_MIN})));
  } else if (t.int64_data_size() > 0) {
    t.set_int64_data(static_cast<int>(below(static_cast<std::size_t>(t.int64_data_size()))), number());
  } else if (t.raw_data().size() >= 4) {
    const float value = real();
    t.mutable_raw_data()->replace(below(t.raw_data().size() / 4) * 4, 4,
                                  std::string(reinterpret_cast<const char*>(&value), 4));
  }
}

void ModelMutator::set_attribute(onnx::NodeProto& n) {
  onnx::AttributeProto* a = any_of(n.mutable_attribute());
  if (a == nullptr) return add_attribute(n);
  if (below(8) == 0)
    return a->set_type(static_cast<onnx::AttributeProto::AttributeType>(pick({1, 2, 3, 6, 7})));
  if (below(8) == 0) return n.mutable_attribute()->RemoveLast();
  a->set_i(number());
  a->set_f(real());
  if (a->ints_size() == 0) return;
  if (below(4) == 0)
    a->add_ints(number());
  else if (below(4) == 0)
    a->mutable_ints()->RemoveLast();
  else
    a->set_ints(static_cast<int>(below(static_cast<std::size_t>(a->ints_size()))), number());
}

void ModelMutator::add_attribute(onnx::NodeProto& n) {
  auto& a = *n.add_attribute();
  a.set_name(text({"axis",
                   "axis",
                   "group",
                   "transA",
                   "transB",
                   "alpha",
                   "beta",
                   "pads",
                   "strides",
                   "dilations",
                   "kernel_shape",
                   "perm",
                   "to",
                   "ceil_mode",
                   "block_size",
                   "blocksize",
                   "output_dtype",
                   "auto_pad",
                   "count_include_pad",
                   "allowzero",
                   "axes",
                   "keepdims"}));
  a.set_type(static_cast<onnx::AttributeProto::AttributeType>(pick({1, 2, 2, 2, 7})));
  a.set_i(number());
  a.set_f(real());
  for (std::size_t i = below(5); i > 0; --i) a.add_ints(pick({0, 1, 2, 3, -1}));
}

void ModelMutator::set_input(const onnx::GraphProto& g, onnx::NodeProto& n) {
  if (n.input_size() == 0) return;
  const int at = static_cast<int>(below(static_cast<std::size_t>(n.input_size())));
  switch (below(4)) {
    case 0:
      return n.set_input(at, "");
    case 1:
      return n.mutable_input()->RemoveLast();
    case 2:
      return n.mutable_input()->SwapElements(at, 0);
    default:
      break;
  }
  const auto any = [this](const auto& list) {
    return static_cast<int>(below(static_cast<std::size_t>(list.size())));
  };
  const onnx::NodeProto& other = g.node(any(g.node()));
  if (g.initializer_size() > 0 && below(2) == 0)
    n.set_input(at, g.initializer(any(g.initializer())).name());
  else if (other.output_size() > 0)
    n.set_input(at, other.output(0));
}

void ModelMutator::set_graph_input(onnx::GraphProto& g) {
  auto& type = *g.mutable_input(0)->mutable_type()->mutable_tensor_type();
  if (below(3) == 0) return type.set_elem_type(static_cast<int>(pick({1, 2, 3, 5, 6, 7, 10})));
  auto& shape = *type.mutable_shape();
  if (shape.dim_size() == 0 || below(3) == 0) return shape.add_dim()->set_dim_value(1);
  if (below(3) == 0) return shape.mutable_dim()->RemoveLast();
  any_of(shape.mutable_dim())->set_dim_value(pick({0, 1, 2, 5, 9, -1, 1 << 12, INT64_MAX}));
}

void ModelMutator::change_field(pb::Message& message) {
  constexpr int kMostLevels = 12;
  std::vector<pb::Message*> messages;
  collect(message, kMostLevels, messages);
  pb::Message& chosen = *messages[below(messages.size())];
  const pb::Descriptor& type = *chosen.GetDescriptor();
  if (type.field_count() == 0) return;
  // In three of four cases, choose a field that is present, because most fields of a model are absent.
  std::vector<const pb::FieldDescriptor*> present;
  chosen.GetReflection()->ListFields(chosen, &present);
  const pb::FieldDescriptor* field =
      present.empty() || below(4) == 0
          ? type.field(static_cast<int>(below(static_cast<std::size_t>(type.field_count()))))
          : present[below(present.size())];
  field->is_repeated() ? set_repeated(chosen, *field) : set_singular(chosen, *field);
}

void ModelMutator::set_singular(pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& reflection = *message.GetReflection();
  if (below(6) == 0) return reflection.ClearField(&message, &field);
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, number());
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, static_cast<std::int32_t>(below(30)) - 1);
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, real());
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(&message, &field, static_cast<int>(below(15)));
    case pb::FieldDescriptor::CPPTYPE_STRING: {
      std::string value = reflection.GetString(message, &field);
      value.resize(below(value.size() + 3), 'a');
      return reflection.SetString(&message, &field, value);
    }
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      reflection.MutableMessage(&message, &field);
      return;
    default:
      return;
  }
}

void ModelMutator::set_repeated(pb::Message& message, const pb::FieldDescriptor& field) {
  const pb::Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  const auto any = [&] { return static_cast<int>(below(static_cast<std::size_t>(size))); };
  if (size > 0 && below(3) == 0) return reflection.RemoveLast(&message, &field);
  if (size > 1 && below(3) == 0) return reflection.SwapElements(&message, &field, any(), any());
  switch (field.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return size > 0 ? reflection.SetRepeatedInt64(&message, &field, any(), number())
                      : reflection.AddInt64(&message, &field, number());
    case pb::FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.AddFloat(&message, &field, real());
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return reflection.AddInt32(&message, &field, static_cast<std::int32_t>(number()));
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return reflection.AddString(
          &message, &field, size > 0 ? reflection.GetRepeatedString(message, &field, any()) : std::string());
    case pb::FieldDescriptor::CPPTYPE_MESSAGE: {
      // Copy the element first: adding an element may move the others.
      const std::string same =
          size > 0 ? reflection.GetRepeatedMessage(message, &field, any()).SerializePartialAsString()
                   : std::string();
      reflection.AddMessage(&message, &field)->ParsePartialFromString(same);
      return;
    }
    default:
      return;
  }
}

}  // namespace millrace::tests
