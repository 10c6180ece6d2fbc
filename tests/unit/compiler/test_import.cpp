// Tests the import of ONNX models: what is read, and what the errors name.
// This source has more than 500 lines because all tests share the functions that write small models.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "compiler/front/read_model.hpp"
#include "compiler/passes/passes.hpp"
#include "import_models.hpp"
#include "runtime/base/file.hpp"

namespace millrace::tests::test_import {
namespace {

using compiler::graph::Shape;

/// Reads the model in a file with the function that Millrace's commands use.
Result<compiler::Model> read_file_model(const std::filesystem::path& path) {
  compiler::ModelOptions options;
  options.model = path;
  std::vector<compiler::StepTime> times;
  compiler::Steps steps(times);
  return compiler::read_model(options, steps);
}

template <class T>
void expect_refused(const Result<T>& result, ErrorCode code, const std::vector<std::string>& says) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), code) << result.error().message();
  for (const std::string& part : says)
    EXPECT_NE(result.error().message().find(part), std::string::npos) << result.error().message();
}

TEST(Import, ReadsNamesTypesAndShapesOfASmallModel) {
  const auto g = import_model(small_model());
  ASSERT_TRUE(g.ok()) << g.error().message();
  ASSERT_EQ(g->input_signatures.size(), 1U);
  EXPECT_EQ(g->input_signatures[0].name, "x");
  EXPECT_EQ(g->input_signatures[0].shape, (Shape{1, 2, 6, 6}));
  EXPECT_EQ(compiler::graph::datatype(g->input_signatures[0].type), "FP32");
  EXPECT_EQ(g->output_signatures[0].shape, (Shape{1, 3, 6, 6}));
}

TEST(Import, ASymbolicBatchSizeBecomesOne) {
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

TEST(Import, ErrorNamesASymbolicDimensionOtherThanTheBatchSize) {
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

TEST(Import, RefusesABatchSizeAboveOne) {
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

TEST(Import, ErrorDistinguishesEmptyForeignAndTruncatedFiles) {
  expect_refused(import_bytes(""), ErrorCode::kInvalidInput, {"empty"});
  expect_refused(import_bytes("%PDF-1.4 not a model at all"), ErrorCode::kInvalidInput,
                 {"not an ONNX model"});
  const std::string whole = small_model().bytes();
  expect_refused(import_bytes(whole.substr(0, whole.size() / 2)), ErrorCode::kInvalidInput, {"truncated"});
  expect_refused(import_bytes(whole.substr(0, whole.size() - 1)), ErrorCode::kInvalidInput, {"truncated"});
}

TEST(Import, ErrorNamesThePathOfAMissingFileOrDirectory) {
  const TemporaryDirectory directory("millrace-import");
  const auto missing = read_file_model(directory.path() / "missing.onnx");
  expect_refused(missing, ErrorCode::kNotFound, {"missing.onnx"});
  expect_refused(read_file_model(directory.path()), ErrorCode::kInvalidInput, {"directory"});
}

TEST(Import, ListsAllUnsupportedOperatorsWithTheirReasons) {
  OnnxModel m = small_model();
  m.node("LSTM", {"y"}, "memory");
  m.node("DynamicQuantizeLinear", {"y"}, "dynamic");
  m.node("Frobnicate", {"y"}, "mystery", "my.domain");
  m.node("NonZero", {"y"}, "nonzero");
  expect_refused(import_model(m), ErrorCode::kUnsupported,
                 {"4 nodes", "LSTM 'memory': recurrent", "'dynamic': its scale depends",
                  "'mystery': the operator domain 'my.domain'", "NonZero 'nonzero'"});
}

TEST(Import, RefusesAFloatModelAndNamesTheRemedy) {
  OnnxModel m;
  m.input("x", {1, 4});
  m.floats("w", {4, 2}, std::vector<float>(8, 0.5F));
  m.node("MatMul", {"x", "w"}, "y");
  m.output("y");
  expect_refused(import_model(m), ErrorCode::kUnsupported,
                 {"float model", "millrace quantize", "samples of its inputs"});
}

TEST(Import, RefusesAModelWhoseWeightsAreMissing) {
  OnnxModel m = small_model();
  m.proto().mutable_graph()->mutable_initializer()->RemoveLast();
  const auto g = import_model(m);
  ASSERT_FALSE(g.ok());
  EXPECT_NE(g.error().message().find("weights are missing"), std::string::npos) << g.error().message();
}

/// Moves the weights of small_model() into a file of their own. Returns the entry for the path of that file, which the
/// caller must set.
onnx::StringStringEntryProto* make_external(OnnxModel& m) {
  for (auto& t : *m.proto().mutable_graph()->mutable_initializer()) {
    if (t.name() != "w_q") continue;
    t.clear_int32_data();
    t.set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = t.add_external_data();
    location->set_key("location");
    location->set_value("weights.bin");
    return location;
  }
  throw std::runtime_error("no w_q");
}

TEST(Import, ReadsExternalWeightsOnlyFromBelowTheModelsFolder) {
  const TemporaryDirectory directory("millrace-import");
  OnnxModel m = small_model();
  auto* location = make_external(m);
  const auto import = [&] {
    std::ofstream(directory.path() / "m.onnx", std::ios::binary) << m.bytes();
    return read_file_model(directory.path() / "m.onnx");
  };
  expect_refused(import(), ErrorCode::kNotFound, {"'w_q'", "weights.bin", "missing"});
  std::ofstream(directory.path() / "weights.bin", std::ios::binary) << std::string(53, '\1');
  expect_refused(import(), ErrorCode::kInvalidInput,
                 {"'w_q'", "weights.bin: ends at byte 53, 54 are wanted from byte 0 on"});
  std::ofstream(directory.path() / "weights.bin", std::ios::binary) << std::string(54, '\1');
  EXPECT_TRUE(import().ok());
  location->set_value("../weights.bin");
  expect_refused(import(), ErrorCode::kInvalidInput, {"below the model's directory"});
  location->set_value("/etc/passwd");
  expect_refused(import(), ErrorCode::kInvalidInput, {"below the model's directory"});
}

TEST(Import, RefusesExternalWeightsIfASymbolicLinkLeadsOutOfTheModelsFolder) {
  const TemporaryDirectory directory("millrace-import"), elsewhere("millrace-elsewhere");
  OnnxModel m = small_model();
  auto* location = make_external(m);
  std::ofstream(elsewhere.path() / "weights.bin", std::ios::binary) << std::string(54, '\1');
  std::filesystem::create_symlink(elsewhere.path() / "weights.bin", directory.path() / "link");
  std::filesystem::create_directory_symlink(elsewhere.path(), directory.path() / "folder");
  std::ofstream(directory.path() / "inside.bin", std::ios::binary) << std::string(54, '\1');
  std::filesystem::create_symlink("inside.bin", directory.path() / "own");
  const auto import = [&](const char* name) {
    location->set_value(name);
    std::ofstream(directory.path() / "m.onnx", std::ios::binary) << m.bytes();
    return read_file_model(directory.path() / "m.onnx");
  };
  for (const char* name : {"link", "folder/weights.bin"})
    expect_refused(import(name), ErrorCode::kInvalidInput, {"'w_q'", name, "leads outside"});
  EXPECT_TRUE(import("own").ok());
}

TEST(Import, NamesTheNodeWhoseConstantIsNotFinite) {
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    OnnxModel m;
    m.input("x", {1, 4});
    m.node("Add", {m.pair("x", 0.5F, 0, "in"), m.floats("shift", {4}, {0, 1, wrong, 2})}, "sum");
    m.output(m.pair("sum", 0.5F, 0, "out"));
    expect_refused(import_model(m), ErrorCode::kInvalidInput,
                   {"Add 'sum'", "element 2", "'shift'", "export the model"});
  }
}

TEST(Import, NamesTheNodeWhoseAttributeIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  const auto import = [](const std::string& type, const std::string& attribute, float value) {
    OnnxModel m(type == "Clip" ? 10 : 13);  // from opset 11 on, the bounds of Clip are inputs
    m.input("x", {1, 4});
    m.node(type, {m.pair("x", 0.5F, 0, "in")}, "odd");
    m.attribute(attribute, value);
    m.output(m.pair("odd", 0.5F, 0, "out"));
    return import_model(m);
  };
  for (const auto& [type, attribute] :
       {std::pair("LeakyRelu", "alpha"), std::pair("HardSigmoid", "alpha"), std::pair("HardSigmoid", "beta")})
    for (const float wrong : {kNan, kInfinity, -kInfinity})
      expect_refused(import(type, attribute, wrong), ErrorCode::kInvalidInput,
                     {std::string(type) + " 'odd'", attribute, std::isnan(wrong) ? "is NaN" : "is infinite"});
  for (const char* bound : {"min", "max"}) {
    const float none = bound == std::string("min") ? -kInfinity : kInfinity;
    expect_refused(import("Clip", bound, kNan), ErrorCode::kInvalidInput, {"Clip 'odd'", bound, "is NaN"});
    expect_refused(import("Clip", bound, -none), ErrorCode::kInvalidInput,
                   {"Clip 'odd'", bound, "is infinite"});
    const auto unbounded = import("Clip", bound, none);
    EXPECT_TRUE(unbounded.ok()) << unbounded.error().message();
  }
}

TEST(Import, NamesTheClipNodeWhoseBoundsAllowNoFiniteValue) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto import = [](float low, float high) {
    OnnxModel m;
    m.input("x", {1, 4});
    m.node("Clip", {m.pair("x", 0.5F, 0, "in"), m.floats("low", {}, {low}), m.floats("high", {}, {high})},
           "clip");
    m.output(m.pair("clip", 0.5F, 0, "out"));
    return import_model(m);
  };
  EXPECT_TRUE(import(-kInfinity, kInfinity).ok());
  expect_refused(import(kInfinity, kInfinity), ErrorCode::kInvalidInput,
                 {"Clip 'clip'", "'low' is infinite"});
  expect_refused(import(-kInfinity, -kInfinity), ErrorCode::kInvalidInput,
                 {"Clip 'clip'", "'high' is infinite"});
}

TEST(Import, RefusesExternalWeightsInADeviceFileWithoutReadingIt) {
  const TemporaryDirectory directory("millrace-import");
  OnnxModel m = small_model();
  make_external(m)->set_value("zero");
  std::ofstream(directory.path() / "m.onnx", std::ios::binary) << m.bytes();
  const std::string zero = directory.path() / "zero";
  constexpr dev_t kZero = 0x105;  // /dev/zero: major 1, minor 5
  if (::mknod(zero.c_str(), S_IFCHR | 0600, kZero) != 0)
    GTEST_SKIP() << "only root may make a device: " << std::strerror(errno);
  ::alarm(20);  // ends the test if the import reads for ever
  expect_refused(read_file_model(directory.path() / "m.onnx"), ErrorCode::kInvalidInput,
                 {"'w_q'", zero + ": is a pipe, device or socket"});
  ::alarm(0);
}

TEST(Import, RefusesExternalWeightsInAPipeOrFolderWithoutBlocking) {
  const TemporaryDirectory directory("millrace-import");
  OnnxModel m = small_model();
  auto* location = make_external(m);
  ASSERT_EQ(::mkfifo((directory.path() / "fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", directory.path() / "link");
  std::filesystem::create_directory(directory.path() / "folder");
  ::alarm(20);  // ends the test if the import hangs
  for (const char* name : {"fifo", "link", "folder", "."}) {
    location->set_value(name);
    std::ofstream(directory.path() / "m.onnx", std::ios::binary) << m.bytes();
    const std::string path = (directory.path() / name).string();
    expect_refused(read_file_model(directory.path() / "m.onnx"), ErrorCode::kInvalidInput,
                   {"'w_q'", path, ": is a "});
  }
  ::alarm(0);
}

TEST(Import, RefusesAModelWhoseNodesFormACycle) {
  OnnxModel m = small_model();
  m.node("Add", {"y", "b"}, "a");
  m.node("Relu", {"a"}, "b");
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"cycle", "'a' depends on its own output"});
}

TEST(Import, ListsTheFirstTenUnsupportedNodesAndCountsTheRest) {
  OnnxModel m = small_model();
  for (int i = 0; i < 25; ++i) m.node("Loop", {"y"}, "loop" + std::to_string(i));
  const auto refused = import_model(m);
  expect_refused(refused, ErrorCode::kUnsupported,
                 {"25 nodes are", "'loop9'", "and 15 more\n`millrace coverage MODEL` shows every node",
                  "\nSupported operators: Abs, Acos, "});
  EXPECT_EQ(refused.error().message().find("'loop10'"), std::string::npos) << refused.error().message();
}

TEST(Import, RefusesAnOldOperatorSetAndNamesTheOldestSupportedSet) {
  OnnxModel m = small_model();
  m.proto().mutable_opset_import(0)->set_version(6);
  expect_refused(import_model(m), ErrorCode::kUnsupported, {"operator set 6", "export with 7 or newer"});
}

TEST(Import, SortsNodesThatComeInAnyOrder) {
  OnnxModel m = small_model();
  auto* nodes = m.proto().mutable_graph()->mutable_node();
  std::reverse(nodes->begin(), nodes->end());
  EXPECT_TRUE(import_model(m).ok());
}

TEST(Import, RefusesDuplicateValuesButNotDuplicateNodeNames) {
  OnnxModel m = small_model();
  m.node("Relu", {"y"}, "conv");
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"'conv'"});
  OnnxModel same = small_model();
  for (auto& n : *same.proto().mutable_graph()->mutable_node()) n.set_name("node");
  EXPECT_TRUE(import_model(same).ok());
}

TEST(Import, RefusesMoreInputsThanTheOperatorTakes) {
  const auto import = [](const std::string& type, int count, const std::string& domain = {}) {
    OnnxModel m = small_model();
    m.node(type, std::vector<std::string>(static_cast<std::size_t>(count), "y"), "odd", domain);
    return import_model(m);
  };
  for (const auto& [type, most] : {std::pair("Conv", 3), std::pair("Relu", 1), std::pair("Add", 2),
                                   std::pair("QuantizeLinear", 3), std::pair("Clip", 3)})
    expect_refused(import(type, most + 1), ErrorCode::kInvalidInput,
                   {std::string(type) + " 'odd': has the input 'y' (input " + std::to_string(most + 1) + ")",
                    "takes at most " + std::to_string(most), "export the model again"});
  expect_refused(import("QLinearAdd", 9, "com.microsoft"), ErrorCode::kInvalidInput, {"takes at most 8"});
  expect_refused(import("Quant", 5, "qonnx.custom_op.general"), ErrorCode::kInvalidInput,
                 {"takes at most 4"});
  OnnxModel empty = small_model();
  empty.node("Relu", {"y", "", ""}, "positive");
  EXPECT_TRUE(import_model(empty).ok()) << "an input without a name is left out";
}

TEST(Import, RefusesAnAttributeOfTheWrongType) {
  OnnxModel m = small_model();
  for (auto& n : *m.proto().mutable_graph()->mutable_node()) {
    if (n.op_type() != "Conv") continue;
    n.mutable_attribute(0)->set_type(onnx::AttributeProto::STRING);
  }
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"Conv 'conv'", "'pads'", "list of integers"});
}

TEST(Import, RefusesImpossiblyLargeShapesAndWindows) {
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
  expect_refused(import_model(window), ErrorCode::kUnsupported, {"Conv 'conv'", "too large"});
  OnnxModel groups = small_model();
  for (auto& n : *groups.proto().mutable_graph()->mutable_node())
    if (n.op_type() == "Conv") {
      auto& group = *n.add_attribute();
      group.set_name("group");
      group.set_type(onnx::AttributeProto::INT);
      group.set_i(std::int64_t{1} << 62);  // times another factor, this overflows an int64
    }
  expect_refused(import_model(groups), ErrorCode::kUnsupported, {"Conv 'conv'", "groups"});
}

TEST(Import, RefusesAnInitialiserWhoseDataDoesNotMatchItsShape) {
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

TEST(Import, RefusesAModelOutputThatNoNodeComputes) {
  OnnxModel m = small_model();
  m.output("nowhere");
  expect_refused(import_model(m), ErrorCode::kInvalidInput, {"'nowhere'"});
}

TEST(Import, AcceptsOperatorSets7To23) {
  for (const std::int64_t opset : {7, 8, 9, 11, 13, 17, 21, 23}) {
    OnnxModel m = small_model();
    m.proto().mutable_opset_import(0)->set_version(opset);
    EXPECT_TRUE(import_model(m).ok()) << opset;
  }
}

/// Changes the dimensions of a constant to `dims` and fills the tensor with copies of its first element.
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

TEST(Import, RefusesScalesAndZeroPointsOfWrongLength) {
  const auto refused = [](const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& sizes,
                          const std::string& says) {
    OnnxModel m = small_model();
    for (const auto& [name, dims] : sizes) resize(m, name, dims);
    expect_refused(import_model(m), ErrorCode::kUnsupported, {says});
  };
  refused({{"xq_q_s", {0}}}, "QuantizeLinear 'xq_q': has an empty scale");
  refused({{"xq_q_s", {0}}, {"xq_q_z", {0}}}, "has an empty scale");
  refused({{"w_s", {0}}}, "DequantizeLinear 'w': has an empty scale");
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

TEST(Import, NamesTheScaleThatIsNotFiniteAndAboveZero) {
  const auto expect_refused_scale = [](const OnnxModel& good, const std::string& scale,
                                       const std::string& node, const std::string& input) {
    ASSERT_TRUE(import_model(good).ok()) << import_model(good).error().message();
    for (const float wrong :
         {0.0F, -0.5F, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      OnnxModel m = good;
      for (auto& t : *m.proto().mutable_graph()->mutable_initializer())
        if (t.name() == scale)
          t.set_raw_data(t.raw_data().substr(4) + std::string(reinterpret_cast<const char*>(&wrong), 4));
      const auto g = import_model(m);
      ASSERT_FALSE(g.ok()) << scale << " = " << wrong;
      std::vector<std::string> says = {node, "'" + scale + "'"};
      if (std::isfinite(wrong)) says.insert(says.end(), {input, "quantise the model again"});
      for (const std::string& part : says)
        EXPECT_NE(g.error().message().find(part), std::string::npos) << g.error().message();
    }
  };
  expect_refused_scale(small_model(), "xq_q_s", "QuantizeLinear 'xq_q'", "(input 2) is ");
  expect_refused_scale(small_model(), "w_s", "DequantizeLinear 'w'", "(input 2) is ");
  expect_refused_scale(operator_model(), "ws", "QLinearConv 'conv'", "(input 5) is ");
  expect_refused_scale(operator_model(), "ys", "QLinearConv 'conv'", "(input 7) is ");
  OnnxModel each = small_model();
  each.weights("v", {3, 2, 3, 3}, std::vector<std::int64_t>(54, 1), {0.25F, 0.5F, 0.125F});
  each.node("Conv", {"xq", "v"}, "z");
  each.output("z");
  expect_refused_scale(each, "v_s", "DequantizeLinear 'v'", " at index 2; a scale must be finite");
}

TEST(Import, RefusesIntegerOperatorsWithParametersOfWrongLength) {
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

TEST(Import, ListsEveryWrongNodeButNotTheNodesThatDependOnWrongNodes) {
  OnnxModel m = small_model();
  m.node("Transpose", {"xq"}, "first");
  m.attribute("perm", std::vector<std::int64_t>{0, 1});
  m.node("Relu", {"first"}, "behind");
  m.node("Flatten", {"xq"}, "second");
  m.attribute("axis", std::int64_t{9});
  const auto g = import_model(m);
  expect_refused(g, ErrorCode::kUnsupported,
                 {"2 nodes", "Transpose 'first': has a perm", "Flatten 'second': has an axis"});
  EXPECT_EQ(g.error().message().find("behind"), std::string::npos) << g.error().message();
}

TEST(Import, ErrorEscapesControlCharactersInNames) {
  OnnxModel m = small_model();
  m.node("LSTM", {"y"}, "\x1b[2Jmemory\nerror: forged");
  const auto g = import_model(m);
  expect_refused(g, ErrorCode::kUnsupported, {"LSTM '\\x1b[2Jmemory\\nerror: forged'"});
  EXPECT_EQ(g.error().message().find('\x1b'), std::string::npos);
}

TEST(Import, RefusesNamesThatAreNotUtf8) {
  OnnxModel tensor = small_model();
  tensor.node("Relu", {"y"}, "caf\xe9");
  tensor.last().set_name("cafe");
  expect_refused(import_model(tensor), ErrorCode::kInvalidInput, {"tensor name that is not UTF-8"});
  OnnxModel node = small_model();
  node.proto().mutable_graph()->mutable_node(0)->set_name("caf\xe9");
  expect_refused(import_model(node), ErrorCode::kInvalidInput, {"node name that is not UTF-8"});
}

TEST(Import, RefusesAModelOutputWhoseBatchAxisIsNotTheFirst) {
  OnnxModel m;
  m.input("x", {1, 2, 6, 6});
  m.pair("x", 0.5F, 0, "xq");
  m.node("Transpose", {"xq"}, "y");
  m.output("y");
  auto g = import_model(m);
  if (g.ok()) g = compiler::passes::run_standard_passes(std::move(*g));
  ASSERT_TRUE(g.ok()) << g.error().message();
  expect_refused(compiler::passes::build_program(std::move(*g)), ErrorCode::kUnsupported,
                 {"output 'y'", "6x6x2x1", "batch"});
}

}  // namespace
}  // namespace millrace::tests::test_import
