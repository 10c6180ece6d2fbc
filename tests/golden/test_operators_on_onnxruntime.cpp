// Compares quantised sums, products and averages with ONNX Runtime on every pair of operand bytes. Each operator is
// written in two ways: as a QLinear operator of com.microsoft, and as a float operator between quantisers, which ONNX
// Runtime fuses to the same kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "onnx_model.hpp"
#include "runtime/base/file.hpp"
#include "tests/golden/models.hpp"
#include "tests/support/seed.hpp"

namespace millrace::golden::test_operators_on_onnxruntime {
namespace {

using tests::OnnxModel;

constexpr int kInt8 = onnx::TensorProto::INT8, kUint8 = onnx::TensorProto::UINT8;

struct Scale {
  float scale = 1;
  std::int64_t zero = 0;
};

/// Adds a scale and a zero point to the graph as constants, and returns the names of both constants.
std::pair<std::string, std::string> constants(OnnxModel& m, const std::string& name, Scale s, int type) {
  return {m.floats(name + "_s", {}, {s.scale}), m.integers(name + "_z", type, {}, {s.zero})};
}

enum class Form { kOperator, kBetweenQuantisers };

/// Returns a graph whose input is a picture with two channels and 256 x 256 pixels, one pixel for each pair of bytes.
/// Channel 0 becomes the quantised tensor 'a', channel 1 becomes 'b'.
OnnxModel all_pairs(Form form, int type, Scale a, Scale b) {
  OnnxModel m;
  m.input("x", {1, 2, 256, 256});
  m.quantise("x", 1.0F, 0, "q", type);
  if (form == Form::kBetweenQuantisers) m.node("DequantizeLinear", {"q", "q_s", "q_z"}, "qf");
  m.floats("one", {}, {1.0F});
  m.integers("none", kInt8, {}, {0});
  for (const bool first : {true, false}) {
    const std::string name = first ? "a" : "b";
    const Scale s = first ? a : b;
    const auto [scale, zero] = constants(m, name, s, type);
    const std::vector<std::int64_t> weights = {first ? 1 : 0, first ? 0 : 1};
    if (form == Form::kOperator) {
      // The convolution only copies bytes, with scale 1. The next operator reads the copy with the scale of 'a' or 'b'.
      m.int8s(name + "_w", {1, 2, 1, 1}, weights);
      m.node("QLinearConv", {"q", "q_s", "q_z", name + "_w", "one", "none", "q_s", "q_z"}, name);
      continue;
    }
    m.weights(name + "_w", {1, 2, 1, 1}, weights, {s.scale});
    m.weights(name + "_b", {1}, {-s.zero}, {s.scale}, 0, onnx::TensorProto::INT32);
    m.node("Conv", {"qf", name + "_w", name + "_b"}, name + "_conv");
    m.node("QuantizeLinear", {name + "_conv", scale, zero}, name);
  }
  return m;
}

Frames pairs_of_bytes(int type) {
  Frames f;
  f.count = 1;
  f.elements = std::size_t{2} * 256 * 256;
  const int lowest = type == kInt8 ? -128 : 0;
  for (const bool first : {true, false})
    for (int y = 0; y < 256; ++y)
      for (int x = 0; x < 256; ++x) f.data.push_back(static_cast<float>((first ? y : x) + lowest));
  return f;
}

/// Quantises the tensor `y` with `out` and makes the result the model's output. Returns how the outputs of Millrace and
/// ONNX Runtime differ, in steps of that scale.
Agreement agreement(OnnxModel& m, const Frames& inputs, const std::vector<std::int64_t>& shape,
                    const std::string& y, Scale out) {
  m.node("DequantizeLinear", {y, y + "_s", y + "_z"}, "answer");
  m.output("answer");
  auto* opset = m.proto().add_opset_import();
  opset->set_domain("com.microsoft");
  opset->set_version(1);
  const TemporaryDirectory directory("millrace-operators");
  const std::filesystem::path file = directory.path() / "model.onnx";
  std::ofstream(file, std::ios::binary) << m.bytes();
  auto compiled = compile_model(file);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message();
  const auto wanted = run_onnxruntime(file, inputs, shape);
  EXPECT_TRUE(wanted.ok()) << wanted.error().message();
  if (!compiled.ok() || !wanted.ok()) return {};
  return compare(run_fast(compiled->program, inputs, inputs.count), *wanted, inputs.count,
                 static_cast<double>(out.scale));
}

std::string two_operands(OnnxModel& m, const std::string& type, Form form, Scale out, int element) {
  const auto [scale, zero] = constants(m, "c", out, element);
  if (form == Form::kOperator)
    return m.node("QLinear" + type, {"a", "a_s", "a_z", "b", "b_s", "b_z", scale, zero}, "c",
                  "com.microsoft");
  m.node("DequantizeLinear", {"a", "a_s", "a_z"}, "af");
  m.node("DequantizeLinear", {"b", "b_s", "b_z"}, "bf");
  m.node(type, {"af", "bf"}, "cf");
  return m.node("QuantizeLinear", {"cf", scale, zero}, "c");
}

struct Case {
  int type = kInt8;
  Scale a, b, out;
};

/// Returns random scales and zero points. Half of the scales are powers of two, so that sums can be rounding ties.
std::vector<Case> cases(std::size_t count) {
  std::mt19937_64 random(tests::chosen_seed(7));
  const auto draw = [&random](bool power, int type) {
    const double exponent = std::uniform_real_distribution<double>(-5, 0)(random);
    const int lowest = type == kInt8 ? -128 : 0;
    return Scale{static_cast<float>(std::exp2(power ? std::round(exponent) : exponent)),
                 std::uniform_int_distribution<int>(lowest, lowest + 255)(random)};
  };
  std::vector<Case> all;
  for (std::size_t i = 0; i < count; ++i) {
    const int type = i % 2 == 0 ? kInt8 : kUint8;
    const bool power = i % 4 < 2;
    all.push_back({type, draw(power, type), draw(power, type), draw(power, type)});
  }
  return all;
}

void expect_equal_to_onnxruntime(const std::string& type, Form form) {
  for (const Case& c : cases(16)) {
    OnnxModel m = all_pairs(form, c.type, c.a, c.b);
    const std::string y = two_operands(m, type, form, c.out, c.type);
    const Agreement found = agreement(m, pairs_of_bytes(c.type), {1, 2, 256, 256}, y, c.out);
    EXPECT_EQ(found.outputs, 65536U);
    EXPECT_EQ(found.equal, found.outputs)
        << (c.type == kInt8 ? "int8" : "uint8") << ": " << c.a.scale << ' ' << c.a.zero << ", " << c.b.scale
        << ' ' << c.b.zero << " -> " << c.out.scale << ' ' << c.out.zero << "; worst " << found.worst_steps
        << " at " << found.first_difference;
  }
}

TEST(ComparedWithOnnxRuntime, QLinearAddIsEqualForEveryPairOfBytes) {
  expect_equal_to_onnxruntime("Add", Form::kOperator);
}

TEST(ComparedWithOnnxRuntime, AddBetweenQuantisersIsEqualForEveryPairOfBytes) {
  expect_equal_to_onnxruntime("Add", Form::kBetweenQuantisers);
}

const std::vector<std::int64_t> kPicture = {1, 3, 31, 29};

/// Returns eight pictures of random bytes, dequantised with `s`.
Frames random_pictures(int type, Scale s) {
  Frames inputs;
  inputs.count = 8;
  inputs.elements = std::size_t{3} * 31 * 29;
  std::mt19937 random(tests::chosen_seed(11));
  const int lowest = type == kInt8 ? -128 : 0;
  std::uniform_int_distribution<std::int64_t> bytes(lowest, lowest + 255);
  for (std::size_t i = 0; i < inputs.count * inputs.elements; ++i)
    inputs.data.push_back(static_cast<float>(bytes(random) - s.zero) * s.scale);
  return inputs;
}

/// Averages random pictures and compares the result with ONNX Runtime. If `window` is 0, averages the whole picture.
Agreement average(const Case& c, Form form, std::int64_t window, std::int64_t stride, std::int64_t pad = 0,
                  std::int64_t ceil = 0) {
  OnnxModel m;
  m.input("x", kPicture);
  m.quantise("x", c.a.scale, c.a.zero, "q", c.type);
  const auto [scale, zero] = constants(m, "y", c.out, c.type);
  const std::string kind = window == 0 ? "GlobalAveragePool" : "AveragePool";
  if (form == Form::kOperator) {
    m.node("QLinear" + kind, {"q", "q_s", "q_z", scale, zero}, "y", "com.microsoft");
  } else {
    m.node("DequantizeLinear", {"q", "q_s", "q_z"}, "qf");
    m.node(kind, {"qf"}, "yf");
  }
  if (window != 0) {
    m.attribute("kernel_shape", std::vector<std::int64_t>{window, window});
    m.attribute("strides", std::vector<std::int64_t>{stride, stride});
    m.attribute("pads", std::vector<std::int64_t>(4, pad));
    m.attribute("ceil_mode", ceil);
  }
  if (form == Form::kBetweenQuantisers) m.node("QuantizeLinear", {"yf", scale, zero}, "y");
  return agreement(m, random_pictures(c.type, c.a), kPicture, "y", c.out);
}

std::string described(const Case& c) {
  std::ostringstream text;
  text << (c.type == kInt8 ? "int8 " : "uint8 ") << c.a.scale << ' ' << c.a.zero << " -> " << c.out.scale
       << ' ' << c.out.zero;
  return text.str();
}

bool is_power_of_two(float x) {
  int exponent = 0;
  return std::frexp(x, &exponent) == 0.5F;
}

TEST(ComparedWithOnnxRuntime, AveragePoolIsEqualIfTheInputScaleIsAPowerOfTwo) {
  for (const Form form : {Form::kOperator, Form::kBetweenQuantisers})
    for (const std::int64_t window : {2, 3, 5})
      for (const Case& c : cases(16)) {
        if (!is_power_of_two(c.a.scale)) continue;
        const Agreement found = average(c, form, window, window == 5 ? 1 : 2);
        EXPECT_EQ(found.equal, found.outputs) << described(c) << ", window " << window
                                              << (form == Form::kOperator ? "" : ", between quantisers");
      }
}

TEST(ComparedWithOnnxRuntime, AveragePoolsThatIgnorePaddingAreEqual) {
  for (const std::int64_t ceil : {0, 1})
    for (const Case& c : cases(8)) {
      if (!is_power_of_two(c.a.scale)) continue;
      const Agreement found = average(c, Form::kBetweenQuantisers, 3, 2, 1, ceil);
      EXPECT_EQ(found.equal, found.outputs)
          << described(c) << ", ceil_mode " << ceil << "; " << found.worst_steps;
    }
}

TEST(ComparedWithOnnxRuntime, GlobalAveragePoolIsEqual) {
  for (const Form form : {Form::kOperator, Form::kBetweenQuantisers})
    for (const Case& c : cases(16)) {
      const Agreement found = average(c, form, 0, 1);
      EXPECT_EQ(found.equal, found.outputs)
          << described(c) << (form == Form::kOperator ? "" : ", between quantisers");
    }
}

TEST(ComparedWithOnnxRuntime, QLinearAddOfAConstantIsEqual) {
  std::size_t differing = 0;
  for (const bool swapped : {false, true})
    for (const Case& c : cases(32)) {
      OnnxModel m;
      m.input("x", kPicture);
      m.quantise("x", c.a.scale, c.a.zero, "a", c.type);
      const std::int64_t lowest = c.type == kInt8 ? -128 : 0;
      m.integers("known", c.type, {1, 3, 1, 1}, {lowest, lowest + 77, lowest + 255});
      constants(m, "b", c.b, c.type);
      constants(m, "y", c.out, c.type);
      if (swapped)
        m.node("QLinearAdd", {"known", "b_s", "b_z", "a", "a_s", "a_z", "y_s", "y_z"}, "y", "com.microsoft");
      else
        m.node("QLinearAdd", {"a", "a_s", "a_z", "known", "b_s", "b_z", "y_s", "y_z"}, "y", "com.microsoft");
      const Agreement found = agreement(m, random_pictures(c.type, c.a), kPicture, "y", c.out);
      differing += found.outputs - found.equal;
    }
  EXPECT_EQ(differing, 0U);
}

// The first operand of the addition has a second reader. Thus ONNX Runtime does not fuse the addition.
TEST(ComparedWithOnnxRuntime, AResidualAdditionBetweenQuantisersIsEqual) {
  for (const Case& c : cases(16)) {
    OnnxModel m;
    m.input("x", {1, 2, 256, 256});
    m.quantise("x", c.a.scale, c.a.zero, "a", c.type);
    m.node("DequantizeLinear", {"a", "a_s", "a_z"}, "af");
    m.weights("w", {2, 2, 1, 1}, {0, 1, 1, 0}, {1.0F});
    m.node("Conv", {"af", "w"}, "swapped");
    const auto [scale, zero] = constants(m, "b", c.b, c.type);
    m.node("QuantizeLinear", {"swapped", scale, zero}, "b");
    m.node("DequantizeLinear", {"b", scale, zero}, "bf");
    m.node("Add", {"af", "bf"}, "sum");
    const auto [to_scale, to_zero] = constants(m, "y", c.out, c.type);
    m.node("QuantizeLinear", {"sum", to_scale, to_zero}, "y");
    Frames inputs = pairs_of_bytes(c.type);
    for (float& x : inputs.data) x = (x - static_cast<float>(c.a.zero)) * c.a.scale;
    const Agreement found = agreement(m, inputs, {1, 2, 256, 256}, "y", c.out);
    EXPECT_EQ(found.equal, found.outputs) << described(c);
  }
}

// ONNX Runtime adds dequantised numbers in float32. If the scale is not a power of two, the sum is rounded, so an
// average halfway between two steps may become either step.
TEST(ComparedWithOnnxRuntime, AveragePoolDiffersByAtMostOneQuantisationStepForAnyScale) {
  std::size_t outputs = 0, equal = 0;
  for (const Form form : {Form::kOperator, Form::kBetweenQuantisers})
    for (const std::int64_t window : {2, 3, 4, 7})
      for (Case c : cases(16)) {
        if (is_power_of_two(c.a.scale)) continue;
        for (const bool same_scale : {false, true}) {
          if (same_scale) c.out = {c.a.scale, c.type == kInt8 ? 0 : c.out.zero};
          const Agreement found = average(c, form, window, window == 4 ? 1 : 2);
          EXPECT_EQ(found.within_one, found.outputs) << described(c) << ", window " << window;
          outputs += found.outputs;
          equal += found.equal;
        }
      }
  EXPECT_GE(static_cast<double>(equal), 0.99 * static_cast<double>(outputs));
  std::cout << outputs - equal << " of " << outputs << " averages differ by a step\n";
}

TEST(ComparedWithOnnxRuntime, MulBetweenQuantisersIsEqualForEveryPairOfBytes) {
  expect_equal_to_onnxruntime("Mul", Form::kBetweenQuantisers);
}

TEST(ComparedWithOnnxRuntime, FunctionsOfTwoTensorsAreEqualForEveryPairOfBytes) {
  for (const char* type : {"Sub", "Min", "Max"})
    for (const Case& c : cases(4)) {
      OnnxModel m = all_pairs(Form::kBetweenQuantisers, c.type, c.a, c.b);
      const std::string y = two_operands(m, type, Form::kBetweenQuantisers, c.out, c.type);
      const Agreement found = agreement(m, pairs_of_bytes(c.type), {1, 2, 256, 256}, y, c.out);
      EXPECT_EQ(found.equal, found.outputs) << type << ' ' << described(c) << "; " << found.first_difference;
    }
}

/// Returns all bytes, dequantised with `s`.
Frames all_bytes(int type, Scale s) {
  Frames inputs;
  inputs.count = 1;
  inputs.elements = 256;
  for (int i = 0; i < 256; ++i)
    inputs.data.push_back(static_cast<float>(i + (type == kInt8 ? -128 : 0) - s.zero) * s.scale);
  return inputs;
}

// ONNX Runtime approximates some functions by polynomials, so a result halfway between two steps may become either.
TEST(ComparedWithOnnxRuntime, FunctionsOfOneByteAreEqualUpToRoundingOfTies) {
  std::size_t outputs = 0, equal = 0;
  for (const char* type : {"Sigmoid",
                           "Tanh",
                           "HardSigmoid",
                           "HardSwish",
                           "Elu",
                           "Selu",
                           "Celu",
                           "Softplus",
                           "Softsign",
                           "Mish",
                           "Exp",
                           "Abs",
                           "Neg",
                           "Floor",
                           "Ceil",
                           "Round",
                           "Erf",
                           "Gelu",
                           "ThresholdedRelu",
                           "LeakyRelu",
                           "Sign",
                           "Sin",
                           "Cos",
                           "Sqrt"})
    for (const Case& c : cases(2)) {
      OnnxModel m(20);
      m.input("x", {1, 1, 16, 16});
      m.quantise("x", c.a.scale, c.a.zero, "q", c.type);
      m.node("DequantizeLinear", {"q", "q_s", "q_z"}, "qf");
      if (std::string(type) == "Sqrt") m.node("Abs", {"qf"}, "positive");
      m.node(type, {std::string(type) == "Sqrt" ? "positive" : "qf"}, "f");
      const auto [scale, zero] = constants(m, "y", c.out, c.type);
      m.node("QuantizeLinear", {"f", scale, zero}, "y");
      const Agreement found = agreement(m, all_bytes(c.type, c.a), {1, 1, 16, 16}, "y", c.out);
      EXPECT_EQ(found.within_one, found.outputs)
          << type << ' ' << described(c) << "; " << found.first_difference;
      outputs += found.outputs;
      equal += found.equal;
    }
  EXPECT_GE(static_cast<double>(equal), 0.999 * static_cast<double>(outputs));
  std::cout << outputs - equal << " of " << outputs << " results differ by a step\n";
}

TEST(ComparedWithOnnxRuntime, ConvolutionsWithUnsignedWeightsAndAZeroPointAreEqual) {
  for (const std::int64_t groups : {1, 3})
    for (const Case& c : cases(8)) {
      if (c.type != kUint8) continue;
      OnnxModel m;
      m.input("x", kPicture);
      m.quantise("x", c.a.scale, c.a.zero, "q", kUint8);
      m.node("DequantizeLinear", {"q", "q_s", "q_z"}, "qf");
      std::vector<std::int64_t> weights;
      for (std::int64_t i = 0; i < 12 * 27 / groups; ++i) weights.push_back(i * 89 % 256);
      m.weights("w", {12, 3 / groups, 3, 3}, weights, {0.01F}, 0, kUint8, {103});
      m.node("Conv", {"qf", "w"}, "conv");
      m.attribute("group", groups);
      const auto [scale, zero] = constants(m, "y", {c.out.scale * 8, c.out.zero}, kUint8);
      m.node("QuantizeLinear", {"conv", scale, zero}, "y");
      const Agreement found =
          agreement(m, random_pictures(kUint8, c.a), kPicture, "y", {c.out.scale * 8, c.out.zero});
      EXPECT_EQ(found.equal, found.outputs) << described(c) << "; " << found.first_difference;
    }
}

}  // namespace
}  // namespace millrace::golden::test_operators_on_onnxruntime
