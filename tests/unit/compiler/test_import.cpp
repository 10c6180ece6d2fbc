#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>

#include "compiler/emit/program.hpp"
#include "compiler/import/import.hpp"
#include "compiler/passes/passes.hpp"
#include "onnx_model.hpp"
#include "runtime/base/file.hpp"

namespace millrace::tests {
namespace {

using compiler::graph::Shape;

/// input -> quantised -> Conv 3x3 -> quantised -> output
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

void expect_refused(const Result<compiler::graph::Graph>& result, ErrorCode code,
                    const std::vector<std::string>& says) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), code) << result.error().message();
  for (const std::string& part : says)
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
}

TEST(Import, a_small_model_comes_with_names_types_and_shapes) {
  const auto g = import_model(small_model());
  ASSERT_TRUE(g.ok()) << g.error().message();
  ASSERT_EQ(g->input_signatures.size(), 1U);
  EXPECT_EQ(g->input_signatures[0].name, "x");
  EXPECT_EQ(g->input_signatures[0].shape, (Shape{1, 2, 6, 6}));
  EXPECT_EQ(compiler::graph::datatype(g->input_signatures[0].type), "FP32");
  EXPECT_EQ(g->output_signatures[0].shape, (Shape{1, 3, 6, 6}));
}

TEST(Import, an_open_batch_is_taken_as_one) {
  OnnxModel m = small_model();
  m.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("batch");
  const auto g = import_model(m);
  ASSERT_TRUE(g.ok()) << g.error().message();
  EXPECT_EQ(g->input_signatures[0].shape, (Shape{1, 2, 6, 6}));
}

TEST(Import, another_open_dimension_is_refused_by_name) {
  OnnxModel m = small_model();
  m.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(2)
      ->set_dim_param("height");
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"'x'", "'height'", "static"});
}

TEST(Import, a_batch_above_one_is_refused) {
  OnnxModel m = small_model();
  m.proto()
      .mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(8);
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"'x'", "batch"});
}

TEST(Import, files_that_are_no_models_are_told_apart) {
  expect_refused(import_bytes(""), ErrorCode::kInvalidInput, {"empty"});
  expect_refused(import_bytes("%PDF-1.4 not a model at all"), ErrorCode::kInvalidInput,
                 {"not an ONNX model"});
  const std::string whole = small_model().bytes();
  expect_refused(import_bytes(whole.substr(0, whole.size() / 2)), ErrorCode::kInvalidInput, {"truncated"});
  expect_refused(import_bytes(whole.substr(0, whole.size() - 1)), ErrorCode::kInvalidInput, {"truncated"});
}

TEST(Import, paths_that_hold_no_file_name_the_path) {
  const TemporaryDirectory directory("millrace-import");
  const auto missing = compiler::import::import_onnx(directory.path() / "missing.onnx");
  expect_refused(missing, ErrorCode::kNotFound, {"missing.onnx"});
  expect_refused(compiler::import::import_onnx(directory.path()), ErrorCode::kInvalidInput, {"directory"});
}

TEST(Import, all_unsupported_operators_are_listed_at_once_with_name_and_reason) {
  OnnxModel m = small_model();
  m.node("LSTM", {"y"}, "memory");
  m.node("DynamicQuantizeLinear", {"y"}, "dynamic");
  m.node("Frobnicate", {"y"}, "mystery", "my.domain");
  m.node("NonZero", {"y"}, "nonzero");
  expect_refused(import_model(m), ErrorCode::kUnsupported,
                 {"4 nodes", "LSTM 'memory': recurrent", "'dynamic': its scale depends",
                  "'mystery': the operator domain 'my.domain'", "NonZero 'nonzero'"});
}

TEST(Import, a_float_model_names_the_remedy) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.floats("w", {4, 2}, std::vector<float>(8, 0.5F));
  m.node("MatMul", {"x", "w"}, "y");
  m.output("y");
  expect_refused(import_model(m), ErrorCode::kUnsupported,
                 {"float model", "millrace quantize", "calibration samples"});
}

TEST(Import, missing_weights_are_named) {
  OnnxModel m = small_model();
  m.proto().mutable_graph()->mutable_initializer()->RemoveLast();
  const auto g = import_model(m);
  ASSERT_FALSE(g.ok());
  EXPECT_NE(g.error().message().find("weights are missing"), std::string::npos) << g.error().message();
}

TEST(Import, external_weights_are_read_checked_and_kept_below_the_model) {
  const TemporaryDirectory directory("millrace-import");
  OnnxModel m = small_model();
  onnx::TensorProto* w = nullptr;
  for (auto& t : *m.proto().mutable_graph()->mutable_initializer())
    if (t.name() == "w_q") w = &t;
  ASSERT_NE(w, nullptr);
  w->clear_int32_data();
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = w->add_external_data();
  location->set_key("location");
  location->set_value("weights.bin");
  const auto import = [&] {
    std::ofstream(directory.path() / "m.onnx", std::ios::binary) << m.bytes();
    return compiler::import::import_onnx(directory.path() / "m.onnx");
  };
  expect_refused(import(), ErrorCode::kNotFound, {"'w_q'", "weights.bin", "missing"});
  std::ofstream(directory.path() / "weights.bin", std::ios::binary) << std::string(53, '\1');
  expect_refused(import(), ErrorCode::kInvalidInput, {"'w_q'", "only 53"});
  std::ofstream(directory.path() / "weights.bin", std::ios::binary) << std::string(54, '\1');
  EXPECT_TRUE(import().ok());
  location->set_value("../weights.bin");
  expect_refused(import(), ErrorCode::kInvalidInput, {"below the model's directory"});
  location->set_value("/etc/passwd");
  expect_refused(import(), ErrorCode::kInvalidInput, {"below the model's directory"});
}

TEST(Import, a_cycle_is_refused) {
  OnnxModel m = small_model();
  m.node("Add", {"y", "b"}, "a");
  m.node("Relu", {"a"}, "b");
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"cycle"});
}

TEST(Import, nodes_in_any_order_are_sorted) {
  OnnxModel m = small_model();
  auto* nodes = m.proto().mutable_graph()->mutable_node();
  std::reverse(nodes->begin(), nodes->end());
  EXPECT_TRUE(import_model(m).ok());
}

TEST(Import, duplicate_values_are_refused_and_duplicate_node_names_are_not) {
  OnnxModel m = small_model();
  m.node("Relu", {"y"}, "conv");
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"'conv'"});
  OnnxModel same = small_model();
  for (auto& n : *same.proto().mutable_graph()->mutable_node()) n.set_name("node");
  EXPECT_TRUE(import_model(same).ok());
}

TEST(Import, an_attribute_of_the_wrong_type_is_refused) {
  OnnxModel m = small_model();
  for (auto& n : *m.proto().mutable_graph()->mutable_node()) {
    if (n.op_type() != "Conv") continue;
    n.mutable_attribute(0)->set_type(onnx::AttributeProto::STRING);
  }
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"Conv 'conv'", "'pads'", "list of integers"});
}

TEST(Import, absurd_shapes_and_windows_are_refused) {
  OnnxModel m = small_model();
  auto* shape =
      m.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->mutable_dim(2)->set_dim_value(1 << 23);
  shape->mutable_dim(3)->set_dim_value(1 << 23);
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"absurdly large"});
  shape->mutable_dim(2)->set_dim_value(-5);
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"impossible dimension"});
  OnnxModel window = small_model();
  for (auto& n : *window.proto().mutable_graph()->mutable_node())
    if (n.op_type() == "Conv") n.mutable_attribute(0)->set_ints(0, std::int64_t{1} << 60);
  expect_refused(import_model(window), ErrorCode::kUnsupported, {"Conv 'conv'", "absurd"});
}

TEST(Import, an_initialiser_whose_data_does_not_match_its_shape_is_refused) {
  OnnxModel m = small_model();
  for (auto& t : *m.proto().mutable_graph()->mutable_initializer())
    if (t.name() == "w_q") t.set_dims(0, 30000);
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"'w_q'", "elements of data"});
  OnnxModel raw = small_model();
  for (auto& t : *raw.proto().mutable_graph()->mutable_initializer())
    if (t.name() == "w_s") t.set_raw_data("abc");
  expect_refused(import_model(raw), ErrorCode::kInvalidInput, {"'w_s'", "3 bytes"});
  OnnxModel value = small_model();
  for (auto& t : *value.proto().mutable_graph()->mutable_initializer())
    if (t.name() == "w_q") t.set_int32_data(5, 1000);
  expect_refused(import_model(value), ErrorCode::kInvalidInput, {"'w_q'", "1000"});
}

TEST(Import, an_old_operator_set_and_an_unknown_output_are_refused) {
  OnnxModel old(7);
  old.input("x", {1, 4});
  old.output("x");
  expect_refused(import_model(old), ErrorCode::kUnsupported, {"operator set 7"});
  OnnxModel m = small_model();
  m.output("nowhere");
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"'nowhere'"});
}

TEST(Import, newer_operator_sets_are_taken) {
  for (const std::int64_t opset : {9, 11, 13, 17, 21, 23}) {
    OnnxModel m = small_model();
    m.proto().mutable_opset_import(0)->set_version(opset);
    EXPECT_TRUE(import_model(m).ok()) << opset;
  }
}

/// Branches, pools, moves and an integer form.
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

/// Sets a tensor to `count` elements, its first as often as needed.
void resize(OnnxModel& m, const std::string& name, std::vector<std::int64_t> dims) {
  std::int64_t count = 1;
  for (const std::int64_t d : dims) count *= d;
  for (auto& t : *m.proto().mutable_graph()->mutable_initializer()) {
    if (t.name() != name) continue;
    const std::int32_t value = t.int32_data_size() > 0 ? t.int32_data(0) : 0;
    std::string raw;
    for (std::int64_t i = 0; i < count; ++i) raw += t.raw_data().substr(0, 4);
    t.clear_dims();
    for (const std::int64_t d : dims) t.add_dims(d);
    t.clear_int32_data();
    if (t.data_type() == onnx::TensorProto::FLOAT)
      t.set_raw_data(raw);
    else
      for (std::int64_t i = 0; i < count; ++i) t.add_int32_data(value);
    return;
  }
  ADD_FAILURE() << "there is no " << name;
}

TEST(Import, scales_and_zero_points_must_be_one_or_one_a_channel) {
  const auto refused = [](const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& sizes,
                          const std::string& says) {
    OnnxModel m = small_model();
    for (const auto& [name, dims] : sizes) resize(m, name, dims);
    expect_refused(import_model(m), ErrorCode::kUnsupported, {says});
  };
  refused({{"xq_q_s", {0}}}, "QuantizeLinear 'xq_q' has an empty scale");
  refused({{"xq_q_s", {0}}, {"xq_q_z", {0}}}, "has an empty scale");
  refused({{"w_s", {0}}}, "DequantizeLinear 'w' has an empty scale");
  refused({{"w_s", {2}}}, "has 2 scales for axis 0 of 3x2x3x3");
  refused({{"xq_q_s", {3}}, {"xq_q_z", {3}}}, "has 3 scales for axis 1 of 1x2x6x6");
  refused({{"xq_q_s", {2}}}, "of different sizes");
  refused({{"w_s", {3, 1}}}, "of rank 2");
  OnnxModel m = small_model();
  for (auto& n : *m.proto().mutable_graph()->mutable_node())
    if (n.name() == "w") n.mutable_attribute(0)->set_i(7);
  resize(m, "w_s", {3});
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"has an axis outside"});
}

/// input -> QLinearConv -> QLinearMatMul -> output, all parameters named.
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

TEST(Import, integer_operators_are_checked_for_their_parameters) {
  ASSERT_TRUE(import_model(operator_model()).ok()) << import_model(operator_model()).error().message();
  for (const std::string name :
       {"ws", "wz", "ys", "yz", "as", "az", "ss", "sz", "ms", "mz", "vs", "vz", "os", "oz"})
    for (const std::int64_t count : {0, 2, 5}) {
      OnnxModel m = operator_model();
      resize(m, name, {count});
      const auto g = import_model(m);
      ASSERT_FALSE(g.ok()) << name << " of " << count;
      EXPECT_EQ(g.error().code(), ErrorCode::kUnsupported) << g.error().message();
    }
}

/// Functions, a fully connected layer with bias, and a branch.
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

/// One change to a parsed model, of the kinds that exporters and attackers make.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void change(onnx::GraphProto& g) {
    switch (below(10)) {
      case 0:
        return set_dims(tensor(g));
      case 1:
      case 2:
        return resize_tensor(tensor(g));
      case 3:
        return set_data(tensor(g));
      case 4:
        return tensor(g).set_data_type(
            static_cast<int>(pick({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 16, 21, 22})));
      case 5:
        return set_attribute(node(g));
      case 6:
        return add_attribute(node(g));
      case 7:
        return set_input(g, node(g));
      case 8:
        return node(g).set_op_type(text({"Conv",
                                         "MatMul",
                                         "Gemm",
                                         "Relu",
                                         "LeakyRelu",
                                         "HardSwish",
                                         "Add",
                                         "Mul",
                                         "MaxPool",
                                         "AveragePool",
                                         "Flatten",
                                         "Transpose",
                                         "Softmax",
                                         "Clip",
                                         "QuantizeLinear",
                                         "DequantizeLinear",
                                         "ConvInteger",
                                         "MatMulInteger",
                                         "Cast",
                                         "Squeeze",
                                         "Concat"}));
      default:
        return set_graph_input(g);
    }
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t pick(std::vector<std::int64_t> values) { return values[below(values.size())]; }
  std::string text(std::vector<std::string> values) { return values[below(values.size())]; }
  std::int64_t number() {
    return pick({0, 1, 2, 3, 4, 5, 7, -1, -2, 127, 128, 255, -128, 65536, std::int64_t{1} << 40, INT64_MIN,
                 INT64_MAX});
  }
  float real() {
    return std::vector<float>{0, -0.0F, -1, 1, 0.5F, 1e-40F, 1e30F, -1e30F, INFINITY, NAN}[below(10)];
  }

  onnx::TensorProto& tensor(onnx::GraphProto& g) {
    return *g.mutable_initializer(static_cast<int>(below(static_cast<std::size_t>(g.initializer_size()))));
  }
  onnx::NodeProto& node(onnx::GraphProto& g) {
    return *g.mutable_node(static_cast<int>(below(static_cast<std::size_t>(g.node_size()))));
  }

  void set_dims(onnx::TensorProto& t) {
    if (t.dims_size() == 0 || below(4) == 0) return t.add_dims(pick({0, 1, 1, 2}));
    if (below(4) == 0) return t.mutable_dims()->RemoveLast();
    t.set_dims(static_cast<int>(below(static_cast<std::size_t>(t.dims_size()))), number());
  }

  /// Dimensions and data together, so that the tensor itself is sound.
  void resize_tensor(onnx::TensorProto& t) {
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

  void set_data(onnx::TensorProto& t) {
    if (t.int32_data_size() > 0)
      t.set_int32_data(
          static_cast<int>(below(static_cast<std::size_t>(t.int32_data_size()))),
          static_cast<std::int32_t>(pick({0, 1, -1, 127, -128, 128, 255, 256, INT32_MAX, INT32_MIN})));
    else if (t.int64_data_size() > 0)
      t.set_int64_data(static_cast<int>(below(static_cast<std::size_t>(t.int64_data_size()))), number());
    else if (t.raw_data().size() >= 4) {
      const float value = real();
      t.mutable_raw_data()->replace(below(t.raw_data().size() / 4) * 4, 4,
                                    std::string(reinterpret_cast<const char*>(&value), 4));
    }
  }

  void set_attribute(onnx::NodeProto& n) {
    if (n.attribute_size() == 0) return add_attribute(n);
    auto& a = *n.mutable_attribute(static_cast<int>(below(static_cast<std::size_t>(n.attribute_size()))));
    if (below(8) == 0)
      return a.set_type(static_cast<onnx::AttributeProto::AttributeType>(pick({1, 2, 3, 6, 7})));
    if (below(8) == 0) return n.mutable_attribute()->RemoveLast();
    a.set_i(number());
    a.set_f(real());
    if (a.ints_size() > 0) {
      if (below(4) == 0)
        a.add_ints(number());
      else if (below(4) == 0)
        a.mutable_ints()->RemoveLast();
      else
        a.set_ints(static_cast<int>(below(static_cast<std::size_t>(a.ints_size()))), number());
    }
  }

  void add_attribute(onnx::NodeProto& n) {
    auto& a = *n.add_attribute();
    a.set_name(text({"axis", "axis", "group", "transA", "transB", "alpha", "beta", "pads", "strides",
                     "dilations", "kernel_shape", "perm", "to", "ceil_mode", "block_size", "output_dtype",
                     "auto_pad", "count_include_pad", "allowzero"}));
    a.set_type(static_cast<onnx::AttributeProto::AttributeType>(pick({1, 2, 2, 2, 7})));
    a.set_i(number());
    a.set_f(real());
    for (std::size_t i = below(5); i > 0; --i) a.add_ints(pick({0, 1, 2, 3, -1}));
  }

  void set_input(onnx::GraphProto& g, onnx::NodeProto& n) {
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
        return n.set_input(at, below(2) == 0 ? tensor(g).name() : node(g).output(0));
    }
  }

  void set_graph_input(onnx::GraphProto& g) {
    auto& type = *g.mutable_input(0)->mutable_type()->mutable_tensor_type();
    if (below(3) == 0) return type.set_elem_type(static_cast<int>(pick({1, 2, 3, 5, 6, 7, 10})));
    auto& shape = *type.mutable_shape();
    if (below(3) == 0) return shape.add_dim()->set_dim_value(1);
    if (below(3) == 0) return shape.mutable_dim()->RemoveLast();
    shape.mutable_dim(static_cast<int>(below(static_cast<std::size_t>(shape.dim_size()))))
        ->set_dim_value(pick({0, 1, 2, 5, 9, -1, 1 << 12, INT64_MAX}));
  }

  std::mt19937 random_;
};

/// The whole way to a program. True where it is taken; an internal error is a failure.
bool goes_the_whole_way(const std::string& bytes, int which) {
  auto g = import_bytes(bytes);
  if (g.ok()) g = compiler::passes::run_standard_passes(std::move(*g));
  const auto program = g.ok() ? compiler::emit::build_program(*g) : Result<kernels::Program>(g.error());
  if (program.ok()) {
    EXPECT_EQ(kernels::validate(*program), "") << "mutant " << which;
    return true;
  }
  EXPECT_NE(program.error().code(), ErrorCode::kInternal)
      << "mutant " << which << ": " << program.error().message();
  EXPECT_FALSE(program.error().message().empty());
  return false;
}

/// MILLRACE_FUZZ_MUTANTS asks for more than a test run has time for.
int mutants(int otherwise) {
  const char* asked = std::getenv("MILLRACE_FUZZ_MUTANTS");
  return asked == nullptr ? otherwise : std::atoi(asked);
}

TEST(Import, mutated_models_give_errors_and_never_crash) {
  const unsigned seed = 4712;
  const int count = mutants(2000);
  std::printf("seed %u, %d mutants\n", seed, count);
  const onnx::ModelProto wholes[] = {small_model().proto(), larger_model().proto(), operator_model().proto(),
                                     function_model().proto()};
  for (const auto& whole : wholes) EXPECT_TRUE(goes_the_whole_way(whole.SerializeAsString(), -1));
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    Mutator mutator(seed + static_cast<unsigned>(i));
    onnx::ModelProto m = wholes[i % 4];
    for (int k = 0; k <= i / 4 % 3; ++k) mutator.change(*m.mutable_graph());
    if (goes_the_whole_way(m.SerializeAsString(), i)) ++taken;
  }
  std::printf("%d are still models\n", taken);
  EXPECT_GT(taken, count / 10) << "mutants that are all refused at the door test nothing behind it";
}

TEST(Import, shapes_and_attributes_that_are_wrong_are_listed_all_at_once_and_what_follows_them_is_not) {
  OnnxModel m = small_model();
  m.node("Transpose", {"xq"}, "first");
  m.attribute("perm", std::vector<std::int64_t>{0, 1});
  m.node("Relu", {"first"}, "behind");
  m.node("Flatten", {"xq"}, "second");
  m.attribute("axis", std::int64_t{9});
  const auto g = import_model(m);
  expect_refused(g, ErrorCode::kUnsupported,
                 {"2 nodes", "Transpose 'first' has a perm", "Flatten 'second' has an axis"});
  EXPECT_EQ(g.error().message().find("behind"), std::string::npos) << g.error().message();
}

TEST(Import, names_cannot_command_a_terminal_or_forge_a_line) {
  OnnxModel m = small_model();
  m.node("LSTM", {"y"}, "\x1b[2Jmemory\nerror: forged");
  const auto g = import_model(m);
  expect_refused(g, ErrorCode::kUnsupported, {"LSTM '\\x1b[2Jmemory\\nerror: forged'"});
  EXPECT_EQ(g.error().message().find('\x1b'), std::string::npos);
}

TEST(Import, an_output_whose_batch_moved_away_is_refused) {
  OnnxModel m;
  m.input("x", {1, 2, 6, 6});
  m.pair("x", 0.5F, 0, "xq");
  m.node("Transpose", {"xq"}, "y");
  m.output("y");
  auto g = import_model(m);
  ASSERT_TRUE(g.ok()) << g.error().message();
  expect_refused(compiler::passes::run_standard_passes(std::move(*g)), ErrorCode::kUnsupported,
                 {"output 'y'", "6x6x2x1", "batch"});
}

TEST(Import, damaged_files_give_errors_and_never_crash) {
  const unsigned seed = 4711;
  const int count = mutants(3000);
  std::printf("seed %u, %d mutants\n", seed, count);
  std::mt19937 random(seed);
  const std::string wholes[] = {small_model().bytes(), larger_model().bytes()};
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = wholes[i % 2];
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (goes_the_whole_way(bytes, i)) ++taken;
  }
  std::printf("%d are still models\n", taken);
  EXPECT_GT(taken, count / 50);
}

}  // namespace
}  // namespace millrace::tests
