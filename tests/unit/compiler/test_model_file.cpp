#include <gtest/gtest.h>

#include <fstream>

#include "compiler/front/model_file.hpp"
#include "runtime/base/file.hpp"

namespace millrace::compiler::test_model_file {
namespace {

class ModelFile : public testing::Test {
 protected:
  ModelFile() {
    model_.inputs = {{"x", "FP32", {1, 3, 8, 8}}};
    model_.outputs = {{"y", "FP32", {1, 2}}};
  }

  Status read(const std::string& text) {
    std::ofstream(directory_.path() / "millrace.yaml") << text;
    return read_model_file(directory_.path() / "net.onnx", model_);
  }
  /// Returns the error for a millrace.yaml with this text. The message must name the file and `line`.
  std::string refusal(const std::string& text, int line = 1) {
    const auto status = read(text);
    if (status.ok()) return "accepted";
    EXPECT_EQ(exit_code(status.error().code()), 2);
    EXPECT_NE(status.error().message().find("millrace.yaml:" + std::to_string(line) + ":"), std::string::npos)
        << status.error().message();
    return status.error().message();
  }
  static void expect(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  TemporaryDirectory directory_{"millrace-model-file"};
  runtime::plan::ModelInfo model_;
};

TEST_F(ModelFile, MillraceYamlIsOptional) {
  EXPECT_TRUE(read_model_file(directory_.path() / "net.onnx", model_).ok());
  EXPECT_TRUE(model_.labels.empty());
}

TEST_F(ModelFile, MillraceYamlSetsLabelsAndPreprocessing) {
  ASSERT_TRUE(read("schema: 1\ndescription: two animals\nlabels: [cat, \"dog: large\"]\nlayout: NCHW\nscale: "
                   "0.5\nmean: [1, 2, 3]\n")
                  .ok());
  EXPECT_EQ(model_.description, "two animals");
  EXPECT_EQ(model_.labels, (std::vector<std::string>{"cat", "dog: large"}));
  EXPECT_EQ(model_.preprocessing, (runtime::plan::Preprocessing{"NCHW", {0.5F}, {1, 2, 3}}));
}

TEST_F(ModelFile, MillraceYamlSetsCompileOptions) {
  const auto defaults = [&] { return read_compile_defaults(directory_.path() / "net.onnx"); };
  ASSERT_TRUE(defaults().ok());
  EXPECT_TRUE(defaults()->weights.empty()) << "without a file";
  ASSERT_TRUE(read("compile: {weights: loaded, objective: latency, partitions: 2, replicas: 3, target_fps: "
                   "1e4, max_latency_us: 12.5}\nlabels: [a, b]\n")
                  .ok());
  ASSERT_TRUE(defaults().ok()) << defaults().error().message();
  EXPECT_EQ(defaults()->weights, "loaded");
  EXPECT_EQ(defaults()->objective, "latency");
  EXPECT_EQ(defaults()->partitions, 2U);
  EXPECT_EQ(defaults()->replicas, 3U);
  EXPECT_EQ(defaults()->target_fps, 1e4);
  EXPECT_EQ(defaults()->max_latency_us, 12.5);
  const auto refused = [&](const std::string& section, const std::string& says, int line = 3) {
    std::ofstream(directory_.path() / "millrace.yaml") << "layout: NCHW\ncompile:\n  " << section << "\n";
    ASSERT_FALSE(defaults().ok()) << section;
    EXPECT_NE(defaults().error().message().find("millrace.yaml:" + std::to_string(line) + ":"),
              std::string::npos)
        << defaults().error().message();
    expect(defaults().error().message(), says);
  };
  refused("weights: bakd", "'bakd' is none of baked-first, auto, baked, loaded, streamed");
  refused("objective: 7", "'7' is none of");
  refused("replicas: 0", "not from 1 to 1024");
  refused("partitions: 99999999999", "not from 1 to 1024");
  refused("target_fps: -1", "above 0");
  refused("max_latency_us: soon", "number");
  refused("weihgts: loaded", "unknown key 'weihgts'");
  refused("[loaded]", "mapping", 2);
  EXPECT_TRUE(read("compile:\n").ok());
  EXPECT_TRUE(defaults().ok()) << "an empty section says nothing";
}

TEST_F(ModelFile, ReadsLabelsFromAFileInTheSameFolder) {
  std::ofstream(directory_.path() / "labels.txt") << "cat\r\ndog\n";
  ASSERT_TRUE(read("labels_file: labels.txt\n").ok());
  EXPECT_EQ(model_.labels, (std::vector<std::string>{"cat", "dog"}));
  expect(refusal("labels: [a, b]\nlabels_file: labels.txt\n", 2), "keep one");
  expect(refusal("labels_file: absent.txt\n"), "absent.txt");
}

TEST_F(ModelFile, InvalidUtf8IsRefusedWithTheLineOfTheLabel) {
  expect(refusal("schema: 1\nlabels:\n  - cat\n  - caf\xe9\n", 4), "is not UTF-8");
  expect(refusal("description: na\xefve\n"), "is not UTF-8");
  std::ofstream(directory_.path() / "labels.txt") << "cat\ncaf\xe9\n";
  expect(refusal("schema: 1\nlabels_file: labels.txt\n", 2), "labels.txt:2: is not UTF-8");
  ASSERT_TRUE(read("labels: [cat, caf\xc3\xa9]\n").ok());
  EXPECT_EQ(model_.labels[1], "caf\xc3\xa9");
}

TEST_F(ModelFile, MillraceYamlIsRefusedIfItContradictsTheModel) {
  expect(refusal("label: [a, b]\n"), "unknown key 'label'");
  expect(refusal("schema: 2\n"), "2 is not a schema");
  expect(refusal("labels: [a, b, c]\n"), "3 labels; the model's first output has 2 classes");
  expect(refusal("labels: {a: b}\n"), "a list is expected");
  expect(refusal("layout: CHW\n"), "'CHW' is neither NCHW nor NHWC");
  expect(refusal("layout: NCHW\nscale: [1, 2]\n", 2), "2 values; give one value, or one per channel (3)");
  expect(refusal("scale: [1, 2]\n"), "none without a layout");
  expect(refusal("mean: 1e300\n"), "float32");
  expect(refusal("mean: warm\n"), "'warm' is not a number");
  model_.inputs[0].shape = {1, 16};
  expect(refusal("layout: NHWC\n"), "has 2 axes");
}

}  // namespace
}  // namespace millrace::compiler::test_model_file
