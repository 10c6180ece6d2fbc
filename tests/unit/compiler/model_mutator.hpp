// Changes ONNX models at random, as faulty exporters or attackers might.
#pragma once

#include <onnx/onnx_pb.h>

#include <random>
#include <string>
#include <vector>

namespace millrace::tests {

/// The same seed makes the same changes.
class ModelMutator {
 public:
  explicit ModelMutator(unsigned seed) : random_(seed) {}

  /// Makes one random change to a graph: to a tensor, an attribute, an input, or the operator of a node. A graph that lacks
  /// the part to change stays as it is.
  void change(onnx::GraphProto& g);

  /// Makes one random change to any field of any message below `message`, whatever the field means: removes, repeats or
  /// swaps elements, and sets numbers and texts to values at which programs break.
  void change_field(google::protobuf::Message& message);

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t pick(const std::vector<std::int64_t>& values) { return values[below(values.size())]; }
  std::string text(const std::vector<std::string>& values) { return values[below(values.size())]; }
  std::int64_t number();
  float real();
  template <class List>
  auto* any_of(List* list);
  void set_dims(onnx::TensorProto& t);
  void resize_tensor(onnx::TensorProto& t);
  void set_data(onnx::TensorProto& t);
  void set_attribute(onnx::NodeProto& n);
  void add_attribute(onnx::NodeProto& n);
  void set_input(const onnx::GraphProto& g, onnx::NodeProto& n);
  void set_graph_input(onnx::GraphProto& g);
  void set_singular(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);
  void set_repeated(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field);

  std::mt19937 random_;
};

}  // namespace millrace::tests
