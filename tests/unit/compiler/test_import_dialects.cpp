// Tests the forms in which models come: nodes of QONNX and FINN, old operator sets and computed constants, and which
// of these forms are refused. tests/dialects compares whole nets with the meaning of their operators.
#include <gtest/gtest.h>

#include <cstring>

#include "compiler/passes/passes.hpp"
#include "kernels/reference/reference.hpp"
#include "onnx_model.hpp"

namespace millrace::tests::test_import_dialects {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr const char* kQonnx = "qonnx.custom_op.general";

/// Adds a Quant node with these inputs. Its output is called `name`.
std::string quant(OnnxModel& m, const std::string& x, const std::string& name, float scale, float zero,
                  float bits, std::int64_t is_signed = 1) {
  m.floats(name + ".scale", {}, {scale});
  m.floats(name + ".zero", {}, {zero});
  m.floats(name + ".bits", {}, {bits});
  m.node("Quant", {x, name + ".scale", name + ".zero", name + ".bits"}, name, kQonnx);
  m.attribute("signed", is_signed);
  return name;
}

/// Returns the model x -> Quant -> MatMul with quantised weights -> Quant -> y.
OnnxModel quantised_layer() {
  OnnxModel m;
  m.input("x", {1, 4});
  quant(m, "x", "q", 0.5F, 0, 4);
  m.floats("wf", {4, 3}, {1, -1, 0.5F, 2, -2, 0, 1, 1, -0.5F, 3, -3, 1.5F});
  quant(m, "wf", "w", 0.5F, 0, 4);
  m.node("MatMul", {"q", "w"}, "p");
  quant(m, "p", "y", 1.0F, 0, 4);
  m.output("y");
  return m;
}

Result<kernels::Program> compiled(const OnnxModel& m) {
  MILLRACE_ASSIGN(auto graph, import_model(m));
  MILLRACE_ASSIGN(graph, compiler::passes::run_standard_passes(std::move(graph)));
  return compiler::passes::build_program(std::move(graph));
}

void expect_refused(const OnnxModel& m, const std::vector<std::string>& says) {
  const auto program = compiled(m);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().code(), ErrorCode::kInternal) << program.error().message();
  for (const std::string& part : says)
    EXPECT_NE(program.error().message().find(part), std::string::npos) << program.error().message();
}

/// Returns the model after the constant `name` was set to `value`.
OnnxModel with_float(OnnxModel m, const std::string& name, float value) {
  for (auto& t : *m.proto().mutable_graph()->mutable_initializer())
    if (t.name() == name) t.set_raw_data(&value, sizeof value);
  return m;
}

std::vector<float> run(const kernels::Program& program, const std::vector<float>& input) {
  kernels::reference::Buffer in(input.size() * sizeof(float));
  std::memcpy(in.data(), input.data(), in.size());
  const auto out = kernels::reference::run(program, {in});
  std::vector<float> values(out[0].size() / sizeof(float));
  std::memcpy(values.data(), out[0].data(), out[0].size());
  return values;
}

TEST(ImportQonnx, QuantNodeRoundsToItsDeclaredBitWidth) {
  const auto program = compiled(quantised_layer());
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(program->tensors[program->blocks[0].outputs[0]].type, (kernels::ElementType{{}, 4}));
  // x = 4 is clamped to 7 steps of 0.5. The sums are 3.5 * (1, -1, 0.5), and results are clamped to -8 .. 7.
  EXPECT_EQ(run(*program, {4, 0, 0, 0}), (std::vector<float>{4, -4, 2}));
  EXPECT_EQ(run(*program, {0, 3.5F, 0, 3.5F}), (std::vector<float>{7, -8, 5}));
}

TEST(ImportQonnx, AcceptsOldDomainNamesAndTheNewNameOfTheQuantOperator) {
  for (const char* domain : {"onnx.brevitas", "finn.custom_op.general", "qonnx.custom_op.general"})
    for (const char* type : {"Quant", "IntQuant"}) {
      OnnxModel m = quantised_layer();
      for (auto& n : *m.proto().mutable_graph()->mutable_node()) {
        if (n.op_type() != "Quant") continue;
        n.set_domain(domain);
        n.set_op_type(type);
      }
      EXPECT_TRUE(compiled(m).ok()) << domain << " " << type;
    }
}

TEST(ImportQonnx, RefusesTruncNodesWhoseOutputScaleDoesNotFit) {
  const auto with_scale = [](float scale) {
    OnnxModel m = quantised_layer();
    m.floats("t.scale", {}, {0.5F});
    m.floats("t.zero", {}, {4});
    m.floats("t.from", {}, {4});
    m.floats("t.result", {}, {scale});
    m.floats("t.to", {}, {3});
    m.node("Trunc", {"y", "t.scale", "t.zero", "t.from", "t.result", "t.to"}, "t", "qonnx.custom_op.general");
    m.output("t");
    return m;
  };
  EXPECT_TRUE(compiled(with_scale(1.0F)).ok());
  for (const float scale : {0.25F, 1e-30F, 1e30F})
    expect_refused(with_scale(scale), {"Trunc 't'", "has an output scale that is below its scale"});
}

TEST(ImportQonnx, RefusesQuantNodesWithInvalidParameters) {
  const OnnxModel good = quantised_layer();
  expect_refused(with_float(good, "q.scale", 0), {"Quant 'q'", "scale must be finite and above 0"});
  expect_refused(with_float(good, "q.scale", -1), {"Quant 'q'", "scale must be finite and above 0"});
  expect_refused(with_float(good, "q.bits", 0),
                 {"Quant 'q'", "bit width must be one whole number from 1 to 32"});
  expect_refused(with_float(good, "q.bits", 2.5F), {"Quant 'q'", "bit width"});
  expect_refused(with_float(good, "q.bits", 24), {"Quant 'q'", "24 bits; at most 16"});
  expect_refused(with_float(good, "w.zero", 0.5F), {"Quant 'w'", "zero point must be one whole number"});
  OnnxModel m = quantised_layer();
  m.attribute("rounding_mode", std::string("SIDEWAYS"));
  expect_refused(m, {"Quant 'y'", "unknown rounding_mode 'SIDEWAYS'"});
  OnnxModel open = quantised_layer();
  open.input("scale", {1});
  open.last().set_input(1, "scale");
  expect_refused(open, {"Quant 'y'", "scale (input 2) must be a constant"});
  OnnxModel narrow = with_float(quantised_layer(), "y.bits", 1);
  narrow.attribute("narrow", std::int64_t{1});
  expect_refused(narrow, {"Quant 'y'", "narrow range of 1 bit"});
}

TEST(ImportQonnx, RefusesTheInternalThresholdOperatorInModelFiles) {
  OnnxModel m = quantised_layer();
  m.node("Threshold", {"y"}, "z", kQonnx);
  m.proto().mutable_graph()->clear_output();
  m.output("z");
  expect_refused(m, {"Threshold 'z'", "no operator of its domain"});
}

/// x -> Quant -> MultiThreshold -> y
OnnxModel thresholds(float scale, float bias, const std::vector<float>& list) {
  OnnxModel m;
  m.input("x", {1, 2});
  quant(m, "x", "q", 1.0F, 0, 8);
  m.floats("t", {1, static_cast<std::int64_t>(list.size())}, list);
  m.node("MultiThreshold", {"q", "t"}, "mt", "finn.custom_op.general");
  m.attribute("out_scale", scale);
  m.attribute("out_bias", bias);
  m.floats("wf", {2, 2}, {1, 0, 0, 1});
  quant(m, "wf", "w", 1.0F, 0, 2);
  m.node("MatMul", {"mt", "w"}, "y");
  m.output("y");
  return m;
}

TEST(ImportFinn, MultiThresholdCountsTheThresholdsThatItsInputReaches) {
  const auto count = compiled(thresholds(1, 0, {5, -3, 0}));
  ASSERT_TRUE(count.ok()) << count.error().message();
  EXPECT_EQ(run(*count, {-4, -3}), (std::vector<float>{0, 1}));
  EXPECT_EQ(run(*count, {4.4F, 100}), (std::vector<float>{2, 3}));
  const auto sign = compiled(thresholds(2, -1, {0}));
  ASSERT_TRUE(sign.ok()) << sign.error().message();
  EXPECT_EQ(run(*sign, {-1, 0}), (std::vector<float>{-1, 1}));
}

TEST(ImportFinn, RefusesAMultiThresholdNodeWhoseBiasIsNotAMultipleOfHalfItsScale) {
  expect_refused(thresholds(1, 0.3F, {0}), {"MultiThreshold 'mt'", "not a multiple of half its out_scale"});
  expect_refused(thresholds(0, 0, {0}), {"MultiThreshold 'mt'", "out_scale that is not above 0"});
}

TEST(ImportForms, ConstantOfShapeIsFolded) {
  OnnxModel m = quantised_layer();
  m.int64s("shape", {3});
  m.node("ConstantOfShape", {"shape"}, "ones");
  auto* a = m.last().add_attribute();
  a->set_name("value");
  a->set_type(onnx::AttributeProto::TENSOR);
  a->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  a->mutable_t()->add_dims(1);
  a->mutable_t()->add_float_data(2.0F);
  m.node("Add", {"p", "ones"}, "more");
  quant(m, "more", "z", 1.0F, 0, 4);
  m.proto().mutable_graph()->clear_output();
  m.output("z");
  const auto program = compiled(m);
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(run(*program, {0, 1, 0, 0}), (std::vector<float>{4, 0, 2}));
}

TEST(ImportForms, TwoBitTensorsAreRead) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.pair("x", 1.0F, 0, "q");
  auto* t = m.proto().mutable_graph()->add_initializer();
  t->set_name("wi");
  t->set_data_type(26);  // INT2
  t->add_dims(4);
  t->add_dims(1);
  t->set_raw_data(std::string(1, static_cast<char>(0b10'11'01'00)));  // 0, 1, -1, -2
  m.floats("ws", {}, {1.0F});
  m.node("DequantizeLinear", {"wi", "ws"}, "w");
  m.node("MatMul", {"q", "w"}, "y");
  m.output("y");
  const auto program = compiled(m);
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(run(*program, {10, 20, 40, 3}), (std::vector<float>{20 - 40 - 6}));
}

TEST(ImportForms, WeightsThatPassThroughATransposeStayIntegers) {
  OnnxModel m;
  m.input("x", {1, 2});
  m.pair("x", 1.0F, 0, "q");
  m.weights("w", {3, 2}, {1, 2, 3, 4, 5, 6}, {1.0F, 2.0F, 4.0F});
  m.node("Transpose", {"w"}, "turned");
  m.node("MatMul", {"q", "turned"}, "y");
  m.output("y");
  const auto program = compiled(m);
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(run(*program, {1, 10}), (std::vector<float>{21, 86, 260}));
}

TEST(ImportForms, PoolsWithChannelsLastEqualThoseWithChannelsFirst) {
  OnnxModel m;
  m.input("x", {1, 2, 2, 3}, onnx::TensorProto::INT8);
  m.floats("s", {}, {1.0F});
  m.int8s("z", {}, {0});
  m.node("QLinearGlobalAveragePool", {"x", "s", "z", "s", "z"}, "y", "com.microsoft");
  m.attribute("channels_last", std::int64_t{1});
  m.output("y");
  const auto program = compiled(m);
  ASSERT_TRUE(program.ok()) << program.error().message();
  kernels::reference::Buffer in(12);
  const int values[12] = {1, 10, -4, 3, 20, -4, 1, 30, -8, 3, 40, -8};
  for (std::size_t i = 0; i < 12; ++i) in[i] = static_cast<std::byte>(values[i]);
  const auto out = kernels::reference::run(*program, {in});
  EXPECT_EQ(out.at(0), (kernels::reference::Buffer{std::byte{2}, std::byte{25}, std::byte{0xFA}}));
}

TEST(ImportForms, QLinearMulByConstantsIsExact) {
  OnnxModel m;
  m.input("x", {1, 3}, onnx::TensorProto::INT8);
  m.floats("s", {}, {0.5F});
  m.int8s("z", {}, {1});
  m.int8s("c", {3}, {3, 4, 5});
  m.node("QLinearMul", {"x", "s", "z", "c", "s", "z", "s", "z"}, "y", "com.microsoft");
  m.output("y");
  const auto program = compiled(m);
  ASSERT_TRUE(program.ok()) << program.error().message();
  const auto out = kernels::reference::run(*program, {{std::byte{9}, std::byte{5}, std::byte{100}}});
  // The expected values are (9 - 1) * 2 * 0.5 + 1, (5 - 1) * 3 * 0.5 + 1, and (100 - 1) * 4 * 0.5 + 1, which is
  // clamped to 127.
  EXPECT_EQ(out.at(0), (kernels::reference::Buffer{std::byte{9}, std::byte{7}, std::byte{127}}));
}

}  // namespace
}  // namespace millrace::tests::test_import_dialects
