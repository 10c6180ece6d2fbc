#include "onnx_model.hpp"

#include "compiler/front/import.hpp"

namespace millrace::tests {

OnnxModel::OnnxModel(std::int64_t opset) {
  model_.set_ir_version(8);
  auto* set = model_.add_opset_import();
  set->set_domain("");
  set->set_version(opset);
  model_.mutable_graph()->set_name("test");
}

void OnnxModel::input(const std::string& name, const std::vector<std::int64_t>& shape, int type) {
  auto* input = model_.mutable_graph()->add_input();
  input->set_name(name);
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const std::int64_t d : shape) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (d < 0)
      dim->set_dim_param("n");
    else
      dim->set_dim_value(d);
  }
}

void OnnxModel::output(const std::string& name) {
  model_.mutable_graph()->add_output()->set_name(name);
}

std::string OnnxModel::floats(const std::string& name, const std::vector<std::int64_t>& shape,
                              const std::vector<float>& values) {
  auto* t = model_.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t d : shape) t->add_dims(d);
  t->set_raw_data(values.data(), values.size() * sizeof(float));
  return name;
}

std::string OnnxModel::integers(const std::string& name, int type, const std::vector<std::int64_t>& shape,
                                const std::vector<std::int64_t>& values) {
  auto* t = model_.mutable_graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (const std::int64_t d : shape) t->add_dims(d);
  for (const std::int64_t v : values) {
    if (type == onnx::TensorProto::INT64)
      t->add_int64_data(v);
    else
      t->add_int32_data(static_cast<std::int32_t>(v));
  }
  return name;
}

std::string OnnxModel::int64s(const std::string& name, const std::vector<std::int64_t>& values) {
  return integers(name, onnx::TensorProto::INT64, {static_cast<std::int64_t>(values.size())}, values);
}

std::string OnnxModel::node(const std::string& type, const std::vector<std::string>& inputs,
                            const std::string& name, const std::string& domain) {
  auto* n = model_.mutable_graph()->add_node();
  n->set_op_type(type);
  n->set_name(name);
  n->set_domain(domain);
  for (const std::string& i : inputs) n->add_input(i);
  n->add_output(name);
  return name;
}

void OnnxModel::attribute(const std::string& name, std::int64_t value) {
  auto* a = last().add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}

void OnnxModel::attribute(const std::string& name, const std::vector<std::int64_t>& value) {
  auto* a = last().add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t v : value) a->add_ints(v);
}

void OnnxModel::attribute(const std::string& name, float value) {
  auto* a = last().add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::FLOAT);
  a->set_f(value);
}

void OnnxModel::attribute(const std::string& name, const std::string& value) {
  auto* a = last().add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::STRING);
  a->set_s(value);
}

std::string OnnxModel::quantise(const std::string& x, float scale, std::int64_t zero, const std::string& name,
                                int type) {
  return node("QuantizeLinear",
              {x, floats(name + "_s", {}, {scale}), integers(name + "_z", type, {}, {zero})}, name);
}

std::string OnnxModel::pair(const std::string& x, float scale, std::int64_t zero, const std::string& name,
                            int type) {
  quantise(x, scale, zero, name + "_q", type);
  return node("DequantizeLinear", {name + "_q", name + "_q_s", name + "_q_z"}, name);
}

std::string OnnxModel::weights(const std::string& name, const std::vector<std::int64_t>& shape,
                               const std::vector<std::int64_t>& values, const std::vector<float>& scale,
                               std::int64_t axis, int type, const std::vector<std::int64_t>& zero) {
  integers(name + "_q", type, shape, values);
  const std::vector<std::int64_t> each =
      scale.size() == 1 ? std::vector<std::int64_t>{}
                        : std::vector<std::int64_t>{static_cast<std::int64_t>(scale.size())};
  std::vector<std::string> inputs = {name + "_q", floats(name + "_s", each, scale)};
  if (!zero.empty()) inputs.push_back(integers(name + "_z", type, each, zero));
  node("DequantizeLinear", inputs, name);
  attribute("axis", axis);
  return name;
}

Result<compiler::graph::Graph> import_bytes(const std::string& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return compiler::import_onnx(std::vector(first, first + bytes.size()), "test");
}

Result<compiler::graph::Graph> import_model(const OnnxModel& model) {
  return import_bytes(model.bytes());
}

}  // namespace millrace::tests
