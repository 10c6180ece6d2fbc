#include <gtest/gtest.h>

#include <cstdio>
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

void expect_refused(const Result<compiler::graph::Graph>& result, ErrorCode code, const std::vector<std::string>& says) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), code) << result.error().message();
  for (const std::string& part : says) EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
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
  m.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("batch");
  const auto g = import_model(m);
  ASSERT_TRUE(g.ok()) << g.error().message();
  EXPECT_EQ(g->input_signatures[0].shape, (Shape{1, 2, 6, 6}));
}

TEST(Import, another_open_dimension_is_refused_by_name) {
  OnnxModel m = small_model();
  m.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(2)->set_dim_param("height");
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"'x'", "'height'", "static"});
}

TEST(Import, a_batch_above_one_is_refused) {
  OnnxModel m = small_model();
  m.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_value(8);
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"'x'", "batch"});
}

TEST(Import, files_that_are_no_models_are_told_apart) {
  expect_refused(import_bytes(""), ErrorCode::kInvalidInput, {"empty"});
  expect_refused(import_bytes("%PDF-1.4 not a model at all"), ErrorCode::kInvalidInput, {"not an ONNX model"});
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
                 {"4 nodes", "LSTM 'memory': recurrent", "'dynamic': its scale depends", "'mystery': the operator domain 'my.domain'", "NonZero 'nonzero'"});
}

TEST(Import, a_float_model_names_the_remedy) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.floats("w", {4, 2}, std::vector<float>(8, 0.5F));
  m.node("MatMul", {"x", "w"}, "y");
  m.output("y");
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"float model", "millrace quantize", "calibration samples"});
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
  auto* shape = m.proto().mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
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

TEST(Import, damaged_files_give_errors_and_never_crash) {
  const unsigned seed = 4711;
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const std::string wholes[] = {small_model().bytes(), larger_model().bytes()};
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = wholes[i % 2];
    for (unsigned k = 0; k < 1 + random() % 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    auto g = import_bytes(bytes);
    if (!g.ok()) continue;
    const auto lowered = compiler::passes::run_standard_passes(std::move(*g));
    if (!lowered.ok()) {
      EXPECT_NE(lowered.error().code(), ErrorCode::kInternal) << lowered.error().message();
      continue;
    }
    const auto program = compiler::emit::build_program(*lowered);
    if (program.ok()) ++taken;
    else EXPECT_NE(program.error().code(), ErrorCode::kInternal) << program.error().message();
  }
  std::printf("%d of 3000 are still models\n", taken);
}

}  // namespace
}  // namespace millrace::tests
