// Tests the function that writes answers to infer requests.

#include <gtest/gtest.h>

#include <cmath>

#include <limits>

#include "server/http/infer/infer_response.hpp"
#include "server/http/infer/tensor.hpp"

namespace millrace::server::http::test_infer_response {
namespace {

using runtime::plan::ModelInfo;

ModelInfo two_inputs() {
  ModelInfo model;
  model.inputs = {{"x", "FP32", {1, 2, 2}}, {"k", "UINT8", {1, 3}}};
  model.outputs = {{"y", "FP32", {1, 4}}, {"z", "INT8", {1, 2}}};
  model.labels = {"a", "b", "c"};
  return model;
}

struct Outputs {
  std::vector<float> y = {0.25F, 3, -1e-7F, 3};
  std::vector<std::int8_t> z = {-128, 127};
  std::vector<std::span<std::byte>> spans = {std::as_writable_bytes(std::span(y)),
                                             std::as_writable_bytes(std::span(z))};
  std::vector<std::vector<std::byte>> scratch;

  Result<Response> write(const InferRequest& request) {
    return write_infer_response(two_inputs(), "m", "3", request, spans, scratch);
  }
};

TEST(InferResponse, WritesRequestedOutputsInTheirOrder) {
  InferRequest request;
  request.id = "a\"b";
  request.outputs = {{1, false, 0}, {0, true, 0}};
  Outputs outputs;
  const auto response = outputs.write(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->body,
            R"({"id":"a\"b","model_name":"m","model_version":"3","outputs":[)"
            R"({"name":"z","datatype":"INT8","shape":[1,2],"data":[-128,127]},)"
            R"({"name":"y","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}]})");
  EXPECT_EQ(response->content_type, "application/octet-stream");
  EXPECT_EQ(response->inference_header_length, response->body.size());
  ASSERT_EQ(response->binary.size(), 1U);
  EXPECT_EQ(response->binary[0].data(), outputs.spans[0].data()) << "outputs are not copied";
}

TEST(InferResponse, WritesClassesAsValueIndexLabelAndBreaksTiesByIndex) {
  InferRequest request;
  request.outputs = {{0, false, 4}, {1, false, 1}};
  Outputs outputs;
  const auto response = outputs.write(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(
      response->body,
      R"({"model_name":"m","model_version":"3","outputs":[)"
      R"({"name":"y","datatype":"BYTES","shape":[4],"data":["3.000000:1:b","3.000000:3","0.250000:0:a","-0.000000:2:c"]},)"
      R"({"name":"z","datatype":"BYTES","shape":[1],"data":["127:1"]}]})");
}

TEST(InferResponse, WritesEachClassInBinaryFormAfterItsLength) {
  InferRequest request;
  request.outputs = {{0, true, 1}};
  Outputs outputs;
  const auto response = outputs.write(request);
  ASSERT_TRUE(response.ok());
  ASSERT_EQ(response->binary.size(), 1U);
  const std::string text(reinterpret_cast<const char*>(response->binary[0].data()),
                         response->binary[0].size());
  EXPECT_EQ(text, std::string("\x0c\0\0\0", 4) + "3.000000:1:b");
  EXPECT_NE(response->body.find(R"("binary_data_size":16)"), std::string::npos) << response->body;
}

TEST(JsonNumbers, AreNeverNanOrInfinityInAnswers) {
  const float values[] = {1, std::nanf(""), std::numeric_limits<float>::infinity()};
  std::string out;
  const auto nan = append_numbers(out, "FP32", std::as_bytes(std::span(values)), "output 'y'");
  ASSERT_FALSE(nan.ok());
  EXPECT_EQ(nan.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(nan.error().message(), "output 'y'[1] is NaN, which JSON cannot represent; request binary_data");
  EXPECT_FALSE(append_numbers(out, "FP16", std::as_bytes(std::span(values)), "y").ok());
}

}  // namespace
}  // namespace millrace::server::http::test_infer_response
