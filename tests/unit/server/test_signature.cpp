// Tests the text that says how the inputs and outputs of two versions differ.

#include <gtest/gtest.h>

#include <string>

#include "server/models/signature.hpp"

namespace millrace::server::models::test_signature {
namespace {

using runtime::plan::ModelInfo;

ModelInfo model() {
  ModelInfo info;
  info.name = "m";
  info.inputs = {{"x", "FP32", {1, 8}}, {"mask", "BOOL", {1, 8}}};
  info.outputs = {{"y", "FP32", {1, 4}}};
  return info;
}

TEST(ModelSignature, IgnoresEverythingButInputsAndOutputs) {
  ModelInfo next = model();
  next.name = "n";
  next.source_digest = "another";
  next.labels = {"cat"};
  EXPECT_EQ(signature_difference(model(), next), "");
}

TEST(ModelSignature, ComparisonNamesEachDifference) {
  ModelInfo next = model();
  next.inputs[0].shape = {1, 3, 8};
  EXPECT_EQ(signature_difference(model(), next), "input 'x' was FP32 [1,8], is FP32 [1,3,8]");
  next = model();
  next.outputs[0].datatype = "INT8";
  EXPECT_EQ(signature_difference(model(), next), "output 'y' was FP32 [1,4], is INT8 [1,4]");
  next = model();
  next.inputs.pop_back();
  next.outputs[0].name = "z";
  EXPECT_EQ(signature_difference(model(), next),
            "input 'mask' is gone; output 'y' is gone; output 'z', FP32 [1,4], is new");
  EXPECT_EQ(signature_difference(next, model()),
            "input 'mask', BOOL [1,8], is new; output 'z' is gone; output 'y', FP32 [1,4], is new");
  next = model();
  std::swap(next.inputs[0], next.inputs[1]);
  EXPECT_EQ(signature_difference(model(), next), "the inputs are in another order")
      << "UDP and raw bodies go by the order";
}

TEST(ModelSignature, DifferenceTextIsShortAndPrintable) {
  ModelInfo next = model();
  next.inputs.clear();
  for (int i = 0; i < 1000; ++i)
    next.inputs.push_back(
        {std::string(1000, '\x1b') + std::to_string(i), "FP32", std::vector<std::int64_t>(500, 1)});
  const std::string text = signature_difference(model(), next);
  EXPECT_LT(text.size(), 5000U);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_TRUE(text.ends_with("; and 994 more")) << text;
}

}  // namespace
}  // namespace millrace::server::models::test_signature
