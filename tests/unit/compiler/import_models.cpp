#include "import_models.hpp"

namespace millrace::tests {

OnnxModel small_model() {
  OnnxModel m;
  m.input("x", {1, 2, 6, 6});
  m.pair("x", 0.5F, 0, "xq");
  m.weights("w", {3, 2, 3, 3}, std::vector<std::int64_t>(54, 1), {0.25F});
  m.node("Conv", {"xq", "w"}, "conv");
  m.attribute("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  m.pair("conv", 1.0F, 0, "y");
  m.output("y");
  return m;
}

OnnxModel larger_model() {
  OnnxModel m = small_model();
  m.proto().mutable_graph()->clear_output();
  m.node("MaxPool", {"y"}, "pool");
  m.attribute("kernel_shape", std::vector<std::int64_t>{2, 2});
  m.attribute("strides", std::vector<std::int64_t>{2, 2});
  m.node("Add", {"pool", "pool"}, "sum");
  m.node("Relu", {"sum"}, "relu");
  m.pair("relu", 2.0F, 0, "a");
  m.node("AveragePool", {"a"}, "mean");
  m.attribute("kernel_shape", std::vector<std::int64_t>{3, 1});
  m.pair("mean", 2.0F, 0, "b");
  m.node("Transpose", {"b"}, "turned");
  m.attribute("perm", std::vector<std::int64_t>{0, 2, 3, 1});
  m.int64s("shape", {1, -1});
  m.node("Reshape", {"turned", "shape"}, "flat");
  m.quantise("flat", 2.0F, 0, "q");
  m.int8s("v", {9, 4}, std::vector<std::int64_t>(36, 3));
  m.node("MatMulInteger", {"q", "v"}, "acc");
  m.node("Cast", {"acc"}, "cast");
  m.attribute("to", std::int64_t{1});
  m.floats("f", {4}, {0.5F, 0.25F, 1.0F, 2.0F});
  m.node("Mul", {"cast", "f"}, "scaled");
  m.node("Softmax", {"scaled"}, "out");
  m.output("out");
  return m;
}

OnnxModel operator_model() {
  constexpr int kInt8 = onnx::TensorProto::INT8;
  OnnxModel m;
  m.input("x", {1, 2, 6, 6});
  m.quantise("x", 0.5F, 3, "xq");
  m.int8s("w", {4, 2, 3, 3}, std::vector<std::int64_t>(72, 5));
  m.floats("ws", {4}, {0.25F, 0.5F, 0.25F, 0.125F});
  m.int8s("wz", {4}, {0, 0, 0, 0});
  m.floats("ys", {}, {4.0F});
  m.int8s("yz", {}, {-5});
  m.integers("b", onnx::TensorProto::INT32, {4}, {1, 2, 3, 4});
  m.node("QLinearConv", {"xq", "xq_s", "xq_z", "w", "ws", "wz", "ys", "yz", "b"}, "conv");
  m.node("QLinearLeakyRelu", {"conv", "ys", "yz", "as", "az"}, "leaky", "com.microsoft");
  m.attribute("alpha", 0.25F);
  m.floats("as", {}, {2.0F});
  m.int8s("az", {}, {7});
  m.node("QLinearAdd", {"conv", "ys", "yz", "leaky", "as", "az", "ss", "sz"}, "sum", "com.microsoft");
  m.floats("ss", {}, {4.0F});
  m.int8s("sz", {}, {0});
  m.node("QLinearGlobalAveragePool", {"sum", "ss", "sz", "ms", "mz"}, "mean", "com.microsoft");
  m.floats("ms", {}, {1.0F});
  m.int8s("mz", {}, {0});
  m.node("Flatten", {"mean"}, "flat");
  m.int8s("v", {4, 3}, std::vector<std::int64_t>(12, 3));
  m.floats("vs", {}, {0.5F});
  m.int8s("vz", {}, {1});
  m.floats("os", {}, {2.0F});
  m.integers("oz", kInt8, {}, {0});
  m.node("QLinearMatMul", {"flat", "ms", "mz", "v", "vs", "vz", "os", "oz"}, "product");
  m.node("DequantizeLinear", {"product", "os", "oz"}, "y");
  m.output("y");
  return m;
}

OnnxModel function_model() {
  OnnxModel m;
  m.input("x", {1, 8});
  m.pair("x", 0.5F, 0, "xq");
  m.weights("w", {8, 4}, std::vector<std::int64_t>(32, -3), {0.25F, 0.5F, 0.25F, 0.125F}, 1);
  m.weights("b", {4}, {10, -20, 30, 7}, {0.125F}, 0, onnx::TensorProto::INT32);
  m.node("Gemm", {"xq", "w", "b"}, "gemm");
  m.attribute("alpha", 1.0F);
  m.attribute("transB", std::int64_t{0});
  m.node("LeakyRelu", {"gemm"}, "leaky");
  m.attribute("alpha", 0.125F);
  m.pair("leaky", 0.25F, 0, "a");
  m.node("Sigmoid", {"a"}, "sigmoid");
  m.pair("sigmoid", 1.0F / 256, -128, "s");
  m.node("HardSwish", {"a"}, "swish");
  m.pair("swish", 0.25F, 0, "h");
  m.node("Concat", {"s", "h"}, "both");
  m.attribute("axis", std::int64_t{1});
  m.floats("low", {}, {-1.0F});
  m.floats("high", {}, {6.0F});
  m.node("Clip", {"both", "low", "high"}, "clipped");
  m.pair("clipped", 0.5F, 0, "y");
  m.output("y");
  return m;
}

}  // namespace millrace::tests
