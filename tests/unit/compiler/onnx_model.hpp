// Builds ONNX models in tests, node by node, and returns them as the bytes of a file.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tests {

class OnnxModel {
 public:
  explicit OnnxModel(std::int64_t opset = 13);

  /// Adds an input of the graph. A dimension below 0 is symbolic.
  void input(const std::string& name, const std::vector<std::int64_t>& shape,
             int type = onnx::TensorProto::FLOAT);
  void output(const std::string& name);

  std::string floats(const std::string& name, const std::vector<std::int64_t>& shape,
                     const std::vector<float>& values);
  std::string integers(const std::string& name, int type, const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& values);
  std::string int8s(const std::string& name, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int64_t>& values) {
    return integers(name, onnx::TensorProto::INT8, shape, values);
  }
  std::string int64s(const std::string& name, const std::vector<std::int64_t>& values);

  /// Adds a node with one output. Returns `name`, which names both the node and its output.
  std::string node(const std::string& type, const std::vector<std::string>& inputs, const std::string& name,
                   const std::string& domain = {});
  void attribute(const std::string& name, std::int64_t value);  // adds an attribute to the last node
  void attribute(const std::string& name, const std::vector<std::int64_t>& value);
  void attribute(const std::string& name, float value);
  void attribute(const std::string& name, const std::string& value);

  /// Adds QuantizeLinear and DequantizeLinear after `x` and returns the name of the dequantised tensor. `type` is INT8
  /// or UINT8.
  std::string pair(const std::string& x, float scale, std::int64_t zero, const std::string& name,
                   int type = onnx::TensorProto::INT8);
  std::string quantise(const std::string& x, float scale, std::int64_t zero, const std::string& name,
                       int type = onnx::TensorProto::INT8);
  /// Adds constant weights with DequantizeLinear and returns the name of the result. `scale` has one value, or one for
  /// each index along `axis`.
  std::string weights(const std::string& name, const std::vector<std::int64_t>& shape,
                      const std::vector<std::int64_t>& values, const std::vector<float>& scale,
                      std::int64_t axis = 0, int type = onnx::TensorProto::INT8,
                      const std::vector<std::int64_t>& zero = {});

  onnx::ModelProto& proto() { return model_; }
  onnx::NodeProto& last() { return *model_.mutable_graph()->mutable_node(model_.graph().node_size() - 1); }
  std::string bytes() const { return model_.SerializeAsString(); }

 private:
  onnx::ModelProto model_;
};

/// Calls import_onnx() on a model with these bytes.
Result<compiler::graph::Graph> import_bytes(const std::string& bytes);
Result<compiler::graph::Graph> import_model(const OnnxModel& model);

}  // namespace millrace::tests
