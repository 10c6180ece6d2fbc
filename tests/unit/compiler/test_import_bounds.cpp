// Bad files that test the bounds of the import: names, versions, axes, external data and long chains of nodes.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "compiler/front/import.hpp"
#include "compiler/passes/passes.hpp"
#include "import_models.hpp"
#include "runtime/base/file.hpp"

namespace millrace::tests::test_import_bounds {
namespace {

using compiler::import_onnx;

void expect_refused(const OnnxModel& model, ErrorCode code, const std::vector<std::string>& says,
                    const std::filesystem::path& directory = {}) {
  const std::string bytes = model.bytes();
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  const auto imported = import_onnx({first, first + bytes.size()}, "m", directory);
  ASSERT_FALSE(imported.ok()) << says.front();
  const std::string& message = imported.error().message();
  EXPECT_EQ(imported.error().code(), code) << message;
  EXPECT_LT(message.size(), 1500U) << message;
  for (const std::string& part : says) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(ImportBounds, RefusesAConstantNodeWithoutAnOutputName) {
  OnnxModel m = small_model();
  m.node("Constant", {}, "c");
  m.attribute("value_int", std::int64_t{3});
  m.last().set_output(0, "");
  expect_refused(m, ErrorCode::kInvalidInput, {"Constant 'c'", "leaves out its first output"});
}

TEST(ImportBounds, RefusesInputsAndConstantsWithTooManyAxes) {
  const auto with_axes = [](std::size_t axes) {
    OnnxModel m;
    m.input("x", std::vector<std::int64_t>(axes, 1));
    m.output(m.pair("x", 0.5F, 0, "y"));
    return m;
  };
  EXPECT_TRUE(import_model(with_axes(9)).ok());
  expect_refused(with_axes(10), ErrorCode::kUnsupported, {"input 'x' has 10 axes", "at most 9"});
  OnnxModel m = small_model();
  m.floats("deep", std::vector<std::int64_t>(100'000, 1), {1});
  expect_refused(m, ErrorCode::kInvalidInput, {"'deep'", "has 100000 axes", "at most 32"});
}

TEST(ImportBounds, RefusesNamesOfAbsurdLength) {
  const std::string longest(4096, 'n'), longer(4097, 'n');
  OnnxModel fits = small_model();
  fits.node("Relu", {"y"}, longest);
  EXPECT_TRUE(import_model(fits).ok());
  OnnxModel tensor = small_model();
  tensor.node("Relu", {"y"}, longer);
  tensor.last().set_name("short");
  expect_refused(tensor, ErrorCode::kInvalidInput, {"a tensor name of 4097 bytes", "rename it"});
  OnnxModel node = small_model();
  node.node("Relu", {"y"}, "z");
  node.last().set_name(longer);
  expect_refused(node, ErrorCode::kInvalidInput, {"a node name of 4097 bytes"});
  OnnxModel type = small_model();
  type.node(longer, {"y"}, "z");
  expect_refused(type, ErrorCode::kInvalidInput, {"an operator name of 4097 bytes"});
  OnnxModel domain = small_model();
  domain.node("Relu", {"y"}, "z", longer);
  expect_refused(domain, ErrorCode::kInvalidInput, {"a domain name of 4097 bytes"});
}

TEST(ImportBounds, RefusesFormatAndOperatorSetVersionsThatDoNotExist) {
  const auto with_opset = [](std::int64_t version) {
    OnnxModel m = small_model();
    m.proto().mutable_opset_import(0)->set_version(version);
    return m;
  };
  EXPECT_TRUE(import_model(with_opset(25)).ok());
  expect_refused(with_opset(26), ErrorCode::kUnsupported, {"operator set 26", "newer", "25 or older"});
  OnnxModel twice = small_model();
  twice.proto().add_opset_import()->set_version(20);
  expect_refused(twice, ErrorCode::kInvalidInput, {"two versions of the same operator set: 13 and 20"});
  OnnxModel format = small_model();
  format.proto().set_ir_version(std::int64_t{1} << 40);
  expect_refused(format, ErrorCode::kUnsupported, {"IR version 1099511627776", "1 to 13"});
}

TEST(ImportBounds, RefusesAGraphWithoutNodes) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.output("x");
  expect_refused(m, ErrorCode::kInvalidInput, {"no nodes"});
}

TEST(ImportBounds, RefusesSubgraphsThatAreNestedTooDeeply) {
  OnnxModel m = small_model();
  for (int depth = 0; depth < 200; ++depth) {
    OnnxModel outer = small_model();
    outer.node("If", {"y"}, "z");
    auto& branch = *outer.last().add_attribute();
    branch.set_name("then_branch");
    branch.set_type(onnx::AttributeProto::GRAPH);
    *branch.mutable_g() = std::move(*m.proto().mutable_graph());
    m = std::move(outer);
  }
  expect_refused(m, ErrorCode::kInvalidInput, {"nested too deeply"});
}

TEST(ImportBounds, RefusesNodesWithoutRequiredAttributes) {
  OnnxModel concat = small_model();
  concat.node("Concat", {"y", "y"}, "both");
  expect_refused(concat, ErrorCode::kInvalidInput, {"Concat 'both'", "'axis' is missing"});
  OnnxModel pool = small_model();
  pool.node("MaxPool", {"y"}, "pool");
  pool.attribute("kernel_shape", std::vector<std::int64_t>{2, 2});
  pool.attribute("auto_pad", std::string("SAME"));
  expect_refused(pool, ErrorCode::kInvalidInput, {"MaxPool 'pool'", "auto_pad 'SAME'", "SAME_UPPER"});
}

TEST(ImportBounds, RefusesExternalDataAtImpossiblePaths) {
  const TemporaryDirectory directory("millrace-bounds");
  std::filesystem::create_symlink("circle", directory.path() / "circle");
  const auto refused = [&](const std::string& location, const std::string& says) {
    OnnxModel m = small_model();
    for (auto& t : *m.proto().mutable_graph()->mutable_initializer()) {
      if (t.name() != "w_q") continue;
      t.clear_int32_data();
      t.set_data_location(onnx::TensorProto::EXTERNAL);
      auto& entry = *t.add_external_data();
      entry.set_key("location");
      entry.set_value(location);
    }
    expect_refused(m, ErrorCode::kInvalidInput, {"'w_q'", says}, directory.path());
  };
  refused("circle", "'circle' cannot be followed");
  refused(std::string(5000, 'a'), "not a path");
  refused(std::string("a\0b", 3), "zero byte");
  refused("\xff", "a path is UTF-8");
}

TEST(ImportBounds, RefusesOutputsThatDependOnNoInput) {
  const auto refusal = [](const std::string& type, std::vector<std::string> inputs) {
    OnnxModel m = small_model();
    m.floats("c", {1, 3}, {1, 2, 3});
    m.node(type, inputs, "still");
    m.output("still");
    auto graph = import_model(m);
    if (graph.ok()) graph = compiler::passes::run_standard_passes(std::move(*graph));
    const auto program = graph.ok() ? compiler::passes::build_program(std::move(*graph))
                                    : Result<kernels::Program>(graph.error());
    return program.ok() ? "" : program.error().message();
  };
  EXPECT_NE(refusal("Erf", {"c"}).find("output 'still' does not depend on any input"), std::string::npos)
      << refusal("Erf", {"c"});
  // The compiler never folds a Softmax or an ArgMax.
  EXPECT_NE(refusal("Softmax", {"c"}).find("operand 'c' is constant"), std::string::npos)
      << refusal("Softmax", {"c"});
  EXPECT_NE(refusal("ArgMax", {"c"}).find("ArgMax 'still': its data are constant"), std::string::npos)
      << refusal("ArgMax", {"c"});
}

TEST(ImportBounds, RefusesTensorsThatGrowTooLargeByRepeatedConcatenation) {
  OnnxModel m;
  m.input("x", {1, 64});
  std::string last = m.pair("x", 0.5F, 0, "in");
  for (int i = 1; i <= 40; ++i) {
    last = m.node("Concat", {last, last}, "twice" + std::to_string(i));
    m.attribute("axis", std::int64_t{1});
  }
  m.output(last);
  expect_refused(m, ErrorCode::kUnsupported, {"'twice22'", "1x268435456", "at most 2^27 elements"});
}

TEST(ImportBounds, OnlyACastToFloatMayReadAConstantOfTypeDouble) {
  const auto with_reader = [](const char* type, std::int64_t to) {
    OnnxModel m = small_model();
    auto& root = *m.proto().mutable_graph()->add_initializer();
    root.set_name("root");
    root.set_data_type(onnx::TensorProto::DOUBLE);
    root.add_double_data(2.5);
    m.node(type, {"root"}, "number");
    if (to != 0) m.attribute("to", to);
    m.output(m.node("Mul", {"y", "number"}, "scaled"));
    return m;
  };
  EXPECT_TRUE(import_model(with_reader("Cast", onnx::TensorProto::FLOAT)).ok());
  for (const OnnxModel& m :
       {with_reader("Cast", onnx::TensorProto::INT32), with_reader("Identity", 0), with_reader("Sqrt", 0)})
    expect_refused(m, ErrorCode::kUnsupported,
                   {"'number': its constant 'root' has the type DOUBLE", "store the constant as float32"});
}

TEST(ImportBounds, RefusesTheSecondOutputOfANodeWhoseFirstOutputIsAConstant) {
  OnnxModel m = small_model();
  m.node("Dropout", {m.floats("c", {3}, {1, 2, 3})}, "same");
  m.last().add_output("mask");
  m.output("mask");
  expect_refused(m, ErrorCode::kUnsupported, {"Dropout 'same'", "its output 'mask' is used"});
}

/// Returns the most memory that this process has used so far, in bytes.
std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

TEST(ImportBounds, MemoryForAChainOfNodesGrowsLinearly) {
  OnnxModel m;
  m.input("x", {1, 4});
  std::string last = m.pair("x", 0.5F, 0, "in");
  for (int i = 0; i < 4000; ++i) last = m.node("Relu", {last}, "relu" + std::to_string(i));
  m.output(m.pair(last, 0.5F, 0, "out"));
  auto graph = import_model(m);
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const std::size_t before = peak_memory();
  const auto lowered = compiler::passes::run_standard_passes(std::move(*graph));
  ASSERT_TRUE(lowered.ok()) << lowered.error().message();
  // If each node had a copy of all steps before it, the copies would take more than 2 GiB.
  EXPECT_LT(peak_memory() - before, std::size_t{400} << 20U);
}

TEST(ImportBounds, MemoryForAChainOfTranspositionsGrowsLinearly) {
  OnnxModel m;
  m.input("x", {1, 2, 2, 2});
  std::string last = m.pair("x", 0.5F, 0, "in");
  for (int i = 0; i < 4000; ++i) {
    last = m.node("Transpose", {last}, "a_transposition_of_the_last_two_axes_" + std::to_string(i));
    m.attribute("perm", std::vector<std::int64_t>{0, 1, 3, 2});
  }
  m.output(m.pair(last, 0.5F, 0, "out"));
  auto graph = import_model(m);
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const std::size_t before = peak_memory();
  auto lowered = compiler::passes::run_standard_passes(std::move(*graph));
  ASSERT_TRUE(lowered.ok()) << lowered.error().message();
  for (const auto& node : lowered->nodes) ASSERT_LT(node.name.size(), 200U);
  const auto program = compiler::passes::build_program(std::move(*lowered));
  ASSERT_TRUE(program.ok()) << program.error().message();
  // If each transposition had the names of all transpositions before it, the names would take more than 500 MiB.
  EXPECT_LT(peak_memory() - before, std::size_t{200} << 20U);
}

}  // namespace
}  // namespace millrace::tests::test_import_bounds
