// Tests clients that send integers instead of a float32 input, which is allowed if the model first quantises the input.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "http_server_fixture.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::server::http::test_quantised_inputs {
namespace {

using namespace runtime::plan;
using kernels::ElementType;

/// Returns a deployment for the host that quantises the float32 input x to the output y, with the given parameters. If
/// `permuted` is true, x is permuted first.
Deployment quantising(ElementType type, std::vector<float> scale, std::int32_t zero_point,
                      bool permuted = false) {
  Deployment out;
  out.model = test::small_model();
  out.digest = "d";
  Partition host;
  host.name = "input";
  host.kind = PartitionKind::kHost;
  host.inputs = {{"in0", "x", {ElementType::Kind::kFloat32, 32}, {1, 2, 2}}};
  auto& program = host.program;
  const kernels::Tensor real{"x", {ElementType::Kind::kFloat32, 32}, {1, 2, 2}, {}, 0};
  program.tensors = {real, real, {"q", type, {1, 2, 2}, scale, zero_point}};
  program.tensors[1].name = "p";
  program.inputs = {0};
  program.outputs = {2};
  if (permuted) program.blocks.push_back({"p", {}, {0}, {1}, kernels::transposition({1, 2, 2}, {0, 2, 1})});
  program.blocks.push_back({"q", {}, {permuted ? 1U : 0U}, {2}, kernels::Quantise{scale, zero_point}});
  out.partitions = {host};
  Channel channel;
  channel.producer = {"", "x"};
  channel.consumer = {"input", "in0"};
  out.channels = {channel};
  return out;
}

const ElementType kInt8{ElementType::Kind::kSigned, 8}, kUint4{ElementType::Kind::kUnsigned, 4};

TEST(QuantisedInputs, AreOfferedIfTheModelFirstQuantisesItsInput) {
  for (const bool permuted : {false, true}) {
    const auto found = quantised_inputs(quantising(kInt8, {0.0078125F}, -3, permuted));
    ASSERT_EQ(found.size(), 1U);
    ASSERT_TRUE(found[0]);
    EXPECT_EQ(found[0]->datatype, "INT8");
    EXPECT_EQ(found[0]->scale, 0.0078125F);
    EXPECT_EQ(found[0]->zero_point, -3);
    EXPECT_EQ(found[0]->lowest, -128);
  }
  EXPECT_EQ(quantised_inputs(quantising(kUint4, {0.3F}, 2))[0]->datatype, "UINT8");
  EXPECT_EQ(quantised_inputs(quantising(kUint4, {0.3F}, 2))[0]->highest, 15);
}

TEST(QuantisedInputs, AreNotOfferedIfQuantisingWouldChangeTheIntegers) {
  EXPECT_FALSE(quantised_inputs(quantising(kInt8, {0.1F, 0.2F}, 0))[0]) << "a scale a channel";
  EXPECT_FALSE(quantised_inputs(quantising(kInt8, {3e38F}, 0))[0]) << "too large";
  auto also_read = quantising(kInt8, {0.1F}, 0);
  also_read.partitions[0].program.outputs.push_back(0);
  EXPECT_FALSE(quantised_inputs(also_read)[0]) << "the reals go elsewhere too";
  auto forked = quantising(kInt8, {0.1F}, 0);
  forked.channels.push_back(forked.channels[0]);
  EXPECT_FALSE(quantised_inputs(forked)[0]);
  EXPECT_FALSE(quantised_inputs(quantising({ElementType::Kind::kBipolar, 1}, {1.F}, 0))[0]);
}

TEST(QuantisedInputs, PreserveEveryInteger) {
  for (const float scale : {0.1F, 0.0039215689F, 7.3F, 1.F}) {
    const auto input = *quantised_inputs(quantising(kInt8, {scale}, 5))[0];
    for (int q = -128; q <= 127; ++q) {
      const auto byte = static_cast<std::int8_t>(q);
      const auto real = dequantised(input, std::as_bytes(std::span(&byte, 1)));
      ASSERT_TRUE(real.ok());
      float x = 0;
      std::memcpy(&x, real->data(), sizeof x);
      ASSERT_EQ(static_cast<int>(std::nearbyint(x / scale)) + 5, q) << scale;
    }
  }
}

class QuantisedInputServer : public HttpServer {
 protected:
  void serve(Deployment deployment) {
    pipeline = std::make_shared<FakePipeline>(std::move(deployment));
    ASSERT_TRUE(
        registry
            .publish(std::make_shared<models::Model>("small", "1", pipeline, metrics->model("small", "1")))
            .ok());
    auto opened = Server::open({}, api, registry, *metrics);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    server = std::move(opened).value();
  }
};

TEST_F(QuantisedInputServer, AcceptsIntegersInJsonBinaryAndRawMode) {
  serve(quantising(kInt8, {0.5F}, 1));
  RawClient to = client();
  const std::string reals = R"("data":[-64.5,0,0.5,63]}]})";  // stands for -128, 1, 2, 127
  const Answer json = to.exchange(post(
      kInferTarget, R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"INT8","data":[-128,1,2,127]}]})"));
  EXPECT_EQ(json.status, 200);
  EXPECT_TRUE(json.body.ends_with(reals)) << json.body;
  const std::string header =
      R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"INT8","parameters":{"binary_data_size":4}}]})";
  const std::string integers = test::bytes_of_values<std::int8_t>({-128, 1, 2, 127});
  const Answer binary =
      to.exchange(post(kInferTarget, header + integers,
                       "Inference-Header-Content-Length: " + std::to_string(header.size()) + "\r\n"));
  EXPECT_TRUE(binary.body.ends_with(reals)) << binary.body;
  const Answer raw = to.exchange(post(kInferTarget, integers, "Inference-Header-Content-Length: 0\r\n"));
  EXPECT_EQ(raw.status, 200) << raw.body;
  EXPECT_TRUE(raw.body.ends_with(test::bytes_of_values({-64.5F, 0.F, 0.5F, 63.F})));
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200) << "the model's own type goes on";
  const std::string announced =
      R"("parameters":{"quantized_datatype":"INT8","quantized_scale":5E-1,"quantized_zero_point":1})";
  EXPECT_NE(to.exchange(get("/v2/models/small")).body.find(announced), std::string::npos);
  EXPECT_NE(to.exchange(get("/v2/millrace/models/small")).body.find(announced), std::string::npos);
}

TEST_F(QuantisedInputServer, RefusesMismatchedIntegersByName) {
  serve(quantising(kUint4, {0.5F}, 0));
  RawClient to = client();
  const auto expect = [&](const std::string& input, const std::string& says) {
    const Answer answer = to.exchange(post(kInferTarget, R"({"inputs":[{"name":"x",)" + input + "}]}"));
    EXPECT_EQ(answer.status, 400);
    EXPECT_NE(answer.body.find(says), std::string::npos) << answer.body;
  };
  expect(R"("shape":[1,2,2],"datatype":"UINT8","data":[0,1,16,3])",
         "inputs[0] 'x': element 2 is 16; the quantised input accepts 0 to 15");
  expect(R"("shape":[1,2,2],"datatype":"UINT8","data":[0,1,256,3])", "256, which is not a value of UINT8");
  expect(R"("shape":[1,2,2],"datatype":"INT8","data":[0,1,2,3])",
         "datatype INT8 is not the model's FP32 nor its quantised UINT8");
  expect(R"("shape":[1,4],"datatype":"UINT8","data":[0,1,2,3])", "shape [1,4] is not the model's [1,2,2]");
  expect(R"("shape":[2,2,2],"datatype":"FP32","data":[0,1,2,3])",
         "batches are not supported: send one request per frame");
}

}  // namespace
}  // namespace millrace::server::http::test_quantised_inputs
