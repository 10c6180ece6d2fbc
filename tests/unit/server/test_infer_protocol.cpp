// Tests the function that parses infer requests, with good requests and every kind of malformed request.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "server/http/infer/infer_request.hpp"
#include "server/http/infer/tensor.hpp"

namespace millrace::server::http::test_infer_protocol {
namespace {

using runtime::plan::ModelInfo;

ModelInfo two_inputs() {
  ModelInfo model;
  model.inputs = {{"x", "FP32", {1, 2, 2}}, {"k", "UINT8", {1, 3}}};
  model.outputs = {{"y", "FP32", {1, 4}}, {"z", "INT8", {1, 2}}};
  model.labels = {"a", "b", "c"};
  return model;
}

ModelInfo one_input(const std::string& datatype = "FP32", std::vector<std::int64_t> shape = {1, 2, 2}) {
  ModelInfo model;
  model.inputs = {{"x", datatype, std::move(shape)}};
  model.outputs = {{"y", "FP32", {1, 4}}};
  return model;
}

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Result<InferRequest> parse(const ModelInfo& model, const std::string& body,
                           std::optional<std::string_view> length = std::nullopt) {
  InferRequest request;
  MILLRACE_TRY(parse_infer_request(model, bytes(body), length, request));
  return request;
}

/// Returns a request for one_input(). Its only input has the name "x" and the JSON text `keys`.
std::string input_with(const std::string& keys) {
  return R"({"inputs":[{"name":"x")" + keys + "}]}";
}
const std::string kShape = R"(,"shape":[1,2,2],"datatype":"FP32")";

template <class T>
std::vector<T> values(std::span<const std::byte> data) {
  std::vector<T> out(data.size() / sizeof(T));
  std::memcpy(out.data(), data.data(), out.size() * sizeof(T));
  return out;
}

TEST(InferRequest, AcceptsInputsInAnyOrderWithJsonAndBinaryMixed) {
  const std::string json =
      R"({"id":"7","inputs":[{"name":"k","shape":[1,3],"datatype":"UINT8","parameters":{"binary_data_size":3}},)"
      R"({"data":[[[1,2],[3.5,-4e0]]],"datatype":"FP32","shape":[1,2,2],"name":"x"}],)"
      R"("outputs":[{"name":"z","parameters":{"binary_data":true}},{"name":"y"}]})";
  const std::string body = json + "\x01\x02\xff";
  const auto request = parse(two_inputs(), body, std::to_string(json.size()));
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->id, "7");
  EXPECT_EQ(values<float>(request->inputs[0]), (std::vector<float>{1, 2, 3.5, -4}));
  EXPECT_EQ(values<std::uint8_t>(request->inputs[1]), (std::vector<std::uint8_t>{1, 2, 255}));
  EXPECT_EQ(request->inputs[1].data(), bytes(body).data() + json.size()) << "binary tensors are not copied";
  ASSERT_EQ(request->outputs.size(), 2U);
  EXPECT_EQ(request->outputs[0].index, 1U);
  EXPECT_TRUE(request->outputs[0].binary);
  EXPECT_FALSE(request->outputs[1].binary);
  EXPECT_FALSE(request->timeout.has_value());
}

TEST(InferRequest, ParsingIntoAUsedRequestClearsItsOldContents) {
  const std::string json = R"({"id":"seven","parameters":{"timeout":5},"inputs":[)"
                           R"({"name":"k","shape":[1,3],"datatype":"UINT8","data":[1,2,3]},)"
                           R"({"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1,2,3,4]}]})";
  InferRequest request;
  ASSERT_TRUE(parse_infer_request(two_inputs(), bytes(json), std::nullopt, request).ok());
  EXPECT_EQ(request.converted.size(), 2U);
  EXPECT_TRUE(request.timeout.has_value());
  const std::string tensor(16, 'x');
  ASSERT_TRUE(parse_infer_request(one_input(), bytes(tensor), "0", request).ok());
  EXPECT_EQ(request.id, "");
  EXPECT_FALSE(request.timeout.has_value());
  EXPECT_TRUE(request.converted.empty());
  ASSERT_EQ(request.inputs.size(), 1U);
  EXPECT_EQ(request.inputs[0].data(), bytes(tensor).data());
  ASSERT_EQ(request.outputs.size(), one_input().outputs.size());
}

TEST(InferRequest, OutputParametersOverrideThoseOfTheRequest) {
  const std::string data = R"("inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1,2,3,4]}])";
  auto request = parse(one_input(), R"({"parameters":{"binary_data_output":true},)" + data + "}");
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->outputs[0].binary);
  request = parse(one_input(), R"({"parameters":{"binary_data_output":true},)" + data +
                                   R"(,"outputs":[{"name":"y","parameters":{"binary_data":false}}]})");
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->outputs[0].binary);
}

TEST(InferRequest, ReadsTimeoutAndPriorityAndIgnoresUnknownKeys) {
  const std::string tail =
      R"("inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1,2,3,4],"extra":{"a":[1]}}],"more":null})";
  auto request =
      parse(one_input(), R"({"parameters":{"timeout":1500,"priority":1,"mine":"x","list":[1,{}]},)" + tail);
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->timeout, std::chrono::microseconds(1500));
  request = parse(one_input(), R"({"parameters":{"timeout":"20"},)" + tail);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->timeout, std::chrono::microseconds(20));
  request = parse(one_input(), R"({"parameters":{"timeout":0},)" + tail);
  ASSERT_TRUE(request.ok());
  EXPECT_FALSE(request->timeout.has_value()) << "0 means none";
  request = parse(one_input(), R"({"parameters":{"timeout":18446744073709551615},)" + tail);
  ASSERT_TRUE(request.ok());
  EXPECT_LE(request->timeout, std::chrono::hours(24)) << "cannot overflow a clock";
}

TEST(InferRequest, ReadsNamesAndStringsWithEscapes) {
  ModelInfo model = one_input();
  model.inputs[0].name = "x\n\xc3\xa9\"";
  const auto request = parse(
      model,
      R"({"id":"a\u0000b","inputs":[{"n\u0061me":"x\n\u00e9\"","shape":[1,2,2],"datatype":"FP32","data":[1,2,3,4]}]})");
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(request->id, std::string("a\0b", 3));
}

TEST(InferRequest, AcceptsARawBodyForAModelWithOneInput) {
  const std::string body(16, 'x');
  const auto request = parse(one_input(), body, "0");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->inputs[0].data(), bytes(body).data());
  EXPECT_TRUE(request->outputs[0].binary);
}

struct BadCase {
  const char* name;
  std::string body;
  std::string says;
  ErrorCode code = ErrorCode::kInvalidInput;
};
std::ostream& operator<<(std::ostream& out, const BadCase& one) {
  return out << one.name;
}

class BadInferRequest : public testing::TestWithParam<BadCase> {};

TEST_P(BadInferRequest, IsRefusedAndTheErrorSaysWhy) {
  const auto request = parse(one_input(), GetParam().body);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().code(), GetParam().code);
  EXPECT_NE(request.error().message().find(GetParam().says), std::string::npos) << request.error().message();
}

INSTANTIATE_TEST_SUITE_P(
    Structure, BadInferRequest,
    testing::Values(
        BadCase{"empty", "", "not well-formed JSON"},
        BadCase{"cut_off", R"({"inputs":[)", "not well-formed JSON"},
        BadCase{"more_behind", "{} {}", "not well-formed JSON"},
        BadCase{"nan", R"({"id":NaN})", "not well-formed JSON"},
        BadCase{"bad_utf8", "{\"id\":\"\xff\"}", "not well-formed JSON"},
        BadCase{"deep", std::string(1000, '['), "must be an object"},
        BadCase{"deep_below", R"({"a":)" + std::string(1000, '['), "not well-formed JSON"},
        BadCase{"array", "[]", "is an array; it must be an object"}, BadCase{"number", "3", "is a number"},
        BadCase{"text", "\"x\"", "is a string"}, BadCase{"no_inputs", "{}", "lacks 'inputs'"},
        BadCase{"id_number", R"({"id":3})", "'id' in the request is a number; it must be a string"},
        BadCase{"id_object", R"({"id":{}})", "'id' in the request is an object"},
        BadCase{"inputs_object", R"({"inputs":{}})",
                "'inputs' in the request is an object; it must be an array"},
        BadCase{"inputs_null", R"({"inputs":null})", "'inputs' in the request is null"},
        BadCase{"inputs_of_numbers", R"({"inputs":[1]})", "inputs holds a number; only objects are allowed"},
        BadCase{"inputs_of_arrays", R"({"inputs":[[]]})", "inputs contains an array"},
        BadCase{"parameters_array", R"({"parameters":[]})", "'parameters' in the request is an array"},
        BadCase{"outputs_number", R"({"outputs":1})", "'outputs' in the request is a number"},
        BadCase{"twice", R"({"id":"a","id":"b"})", "'id' occurs twice in the request"},
        BadCase{"twice_data", input_with(kShape + R"(,"data":[1],"data":[2])"),
                "'data' occurs twice in inputs[0]"},
        BadCase{"many_values",
                R"({"a":[)" +
                    [] {
                      std::string s = "0";
                      for (int i = 0; i < 20'000; ++i) s += ",0";
                      return s;
                    }() +
                    "]}",
                "more than 10000 JSON values"}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadInferRequest,
    testing::Values(
        BadCase{"none_given", R"({"inputs":[]})", "inputs lacks 'x'"},
        BadCase{"unnamed", R"({"inputs":[{"shape":[1]}]})", "inputs[0] lacks 'name'"},
        BadCase{"name_number", R"({"inputs":[{"name":1}]})", "'name' in inputs[0] is a number"},
        BadCase{"unknown", R"({"inputs":[{"name":"q"}]})",
                "inputs[0] 'q': the model has no such input; it has 'x'"},
        BadCase{"no_datatype", input_with(R"(,"shape":[1,2,2],"data":[1,2,3,4])"),
                "inputs[0] 'x' lacks 'datatype'"},
        BadCase{"strange_datatype", input_with(R"(,"shape":[1,2,2],"datatype":"FLOAT")"),
                "unknown datatype 'FLOAT'"},
        BadCase{"other_datatype", input_with(R"(,"shape":[1,2,2],"datatype":"INT8")"),
                "datatype INT8 is not the model's FP32"},
        BadCase{"no_shape", input_with(R"(,"datatype":"FP32","data":[1,2,3,4])"), "lacks 'shape'"},
        BadCase{"other_shape", input_with(R"(,"shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"),
                "shape [1,4] is not the model's [1,2,2]"},
        BadCase{"batch", input_with(R"(,"shape":[2,2,2],"datatype":"FP32","data":[1,2,3,4])"),
                "shape [2,2,2] is not the model's"},
        BadCase{"negative_shape", input_with(R"(,"shape":[1,-1,2],"datatype":"FP32")"),
                "inputs[0].shape must contain whole numbers"},
        BadCase{"real_shape", input_with(R"(,"shape":[1,2.0,2],"datatype":"FP32")"),
                "inputs[0].shape must contain whole numbers"},
        BadCase{"huge_shape", input_with(R"(,"shape":[1,99999999999999999999,2],"datatype":"FP32")"),
                "inputs[0].shape must contain"},
        BadCase{"shape_text", input_with(R"(,"shape":"1,2,2","datatype":"FP32")"),
                "'shape' in inputs[0] is a string"},
        BadCase{"nested_shape", input_with(R"(,"shape":[[1]],"datatype":"FP32")"),
                "inputs[0].shape holds an array"},
        BadCase{"no_data", input_with(kShape), "lacks 'data'"},
        BadCase{"few_elements", input_with(kShape + R"(,"data":[1,2,3])"),
                "holds 3 elements; shape [1,2,2] needs 4"},
        BadCase{"many_elements", input_with(kShape + R"(,"data":[1,2,3,4,5])"),
                "more than 4 elements, which is the total number of elements of the model's inputs"},
        BadCase{"no_elements", input_with(kShape + R"(,"data":[])"), "holds 0 elements"},
        BadCase{"nested_otherwise", input_with(kShape + R"(,"data":[[1,2],[3,4]])"), "nested differently"},
        BadCase{"ragged", input_with(kShape + R"(,"data":[[1,2],[3]])"), "ragged"},
        BadCase{"mixed_depth", input_with(kShape + R"(,"data":[1,[2,3]])"), "ragged"},
        BadCase{"mixed_depth_other", input_with(kShape + R"(,"data":[[1],2])"), "ragged"},
        BadCase{"empty_then_number", input_with(kShape + R"(,"data":[[],1])"), "ragged"},
        BadCase{"data_text", input_with(kShape + R"(,"data":["1",2,3,4])"), "inputs[0].data[0] is a string"},
        BadCase{"data_null", input_with(kShape + R"(,"data":[1,null,3,4])"), "inputs[0].data[1] is null"},
        BadCase{"data_object", input_with(kShape + R"(,"data":[{}])"), "inputs[0].data contains an object"},
        BadCase{"data_number", input_with(kShape + R"(,"data":1)"), "'data' in inputs[0] is a number"},
        BadCase{"data_bool", input_with(kShape + R"(,"data":[true,2,3,4])"),
                ".data[0] is true, which is not a value of FP32"},
        BadCase{"data_too_large", input_with(kShape + R"(,"data":[1,2,3,1e39])"),
                ".data[3] is 1e+39, which is not a value of FP32"},
        BadCase{"data_infinite", input_with(kShape + R"(,"data":[1,2,3,1e999])"), ".data[3]"},
        BadCase{
            "twice",
            R"({"inputs":[{"name":"x")" + kShape + R"(,"data":[1,2,3,4]},{"name":"x")" + kShape + R"(}]})",
            "inputs[1] 'x' occurs twice"},
        BadCase{"both", input_with(kShape + R"(,"data":[1,2,3,4],"parameters":{"binary_data_size":16})"),
                "both 'data' and binary_data_size"},
        BadCase{"size_text", input_with(kShape + R"(,"parameters":{"binary_data_size":"many"})"),
                "binary_data_size must be a whole number"},
        BadCase{"size_negative", input_with(kShape + R"(,"parameters":{"binary_data_size":-16})"),
                "binary_data_size must be a whole number"},
        BadCase{"shared_memory", input_with(kShape + R"(,"parameters":{"shared_memory_region":"r"})"),
                "shared memory", ErrorCode::kUnsupported}),
    [](const auto& param) { return std::string(param.param.name); });

std::string with_outputs(const std::string& rest) {
  return R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1,2,3,4]}],)" + rest + "}";
}

INSTANTIATE_TEST_SUITE_P(
    ParametersAndOutputs, BadInferRequest,
    testing::Values(
        BadCase{"timeout_negative", with_outputs(R"("parameters":{"timeout":-1})"),
                "timeout must be a whole number"},
        BadCase{"timeout_real", with_outputs(R"("parameters":{"timeout":1.5})"),
                "timeout must be a whole number"},
        BadCase{"timeout_text", with_outputs(R"("parameters":{"timeout":"1s"})"),
                "timeout must be a whole number"},
        BadCase{"priority_text", with_outputs(R"("parameters":{"priority":"high"})"),
                "priority must be a whole number"},
        BadCase{"timeout_twice", with_outputs(R"("parameters":{"timeout":5,"timeout":60000000})"),
                "'timeout' occurs twice in parameters"},
        BadCase{"priority_twice", with_outputs(R"("parameters":{"priority":1,"x":[],"priority":1})"),
                "'priority' occurs twice in parameters"},
        BadCase{"binary_output_twice",
                with_outputs(R"("parameters":{"binary_data_output":true,"x":{},"binary_data_output":true})"),
                "'binary_data_output' occurs twice in parameters"},
        BadCase{
            "binary_twice",
            with_outputs(R"("outputs":[{"name":"y","parameters":{"binary_data":true,"binary_data":false}}])"),
            "'binary_data' occurs twice in outputs[0].parameters"},
        BadCase{
            "classification_twice",
            with_outputs(R"("outputs":[{"name":"y","parameters":{"classification":1,"classification":2}}])"),
            "'classification' occurs twice in outputs[0].parameters"},
        BadCase{"size_twice",
                input_with(kShape + R"(,"parameters":{"binary_data_size":4,"binary_data_size":16})"),
                "'binary_data_size' occurs twice in inputs[0].parameters"},
        BadCase{"binary_number", with_outputs(R"("parameters":{"binary_data_output":1})"),
                "binary_data_output must be true or false"},
        BadCase{"sequence", with_outputs(R"("parameters":{"sequence_id":1})"), "sequences are not supported",
                ErrorCode::kUnsupported},
        BadCase{"output_unnamed", with_outputs(R"("outputs":[{}])"), "outputs[0] lacks 'name'"},
        BadCase{"output_unknown", with_outputs(R"("outputs":[{"name":"q"}])"),
                "outputs[0] 'q': the model has no such output; it has 'y'"},
        BadCase{"output_twice", with_outputs(R"("outputs":[{"name":"y"},{"name":"y"}])"),
                "outputs[1] 'y' occurs twice"},
        BadCase{"output_text", with_outputs(R"("outputs":["y"])"),
                "outputs holds a string; only objects are allowed"},
        BadCase{"output_binary",
                with_outputs(R"("outputs":[{"name":"y","parameters":{"binary_data":"yes"}}])"),
                "binary_data must be true or false"},
        BadCase{"no_classes", with_outputs(R"("outputs":[{"name":"y","parameters":{"classification":0}}])"),
                "classification must be at least 1"},
        BadCase{"output_shared",
                with_outputs(R"("outputs":[{"name":"y","parameters":{"shared_memory_region":"r"}}])"),
                "shared memory", ErrorCode::kUnsupported}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(BinaryTensors, MustHaveExactlyTheAnnouncedNumberOfBytes) {
  const auto json = [](const std::string& size) {
    return input_with(kShape + R"(,"parameters":{"binary_data_size":)" + size + "}");
  };
  struct Case {
    std::string body;
    std::string length;
    std::string_view says;
  };
  const std::string good = json("16");
  const std::string length = std::to_string(good.size());
  const Case cases[] = {
      {good + std::string(15, 'x'), length, "the body ends 1 bytes before"},
      {good, length, "the body ends 16 bytes before"},
      {good + std::string(17, 'x'), length, "1 bytes after the last tensor"},
      {json("15") + std::string(15, 'x'), length,
       "binary_data_size 15; FP32 of shape [1,2,2] takes 16 bytes"},
      {json("18446744073709551615"), std::to_string(json("18446744073709551615").size()), "takes 16 bytes"},
      {good + std::string(16, 'x'), "-1", "is not a whole number"},
      {good + std::string(16, 'x'), "", "is not a whole number"},
      {good + std::string(16, 'x'), length + "x", "is not a whole number"},
      {good + std::string(16, 'x'), length + ", " + length, "is not a whole number"},
      {good + std::string(16, 'x'), "99999999999999999999999", "is not a whole number"},
      {good + std::string(16, 'x'), "10000", "more than the body's"},
      {good + std::string(16, 'x'), "10", "not well-formed JSON"},
      {std::string(15, 'x'), "0", "the body is 15 bytes; input 'x' (FP32 [1,2,2]) takes 16"},
      {"", "0", "the body is 0 bytes"},
  };
  for (const Case& one : cases) {
    const auto request = parse(one_input(), one.body, one.length);
    ASSERT_FALSE(request.ok()) << one.says;
    EXPECT_EQ(request.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(request.error().message().find(one.says), std::string::npos) << request.error().message();
  }
  const auto raw = parse(two_inputs(), std::string(19, 'x'), "0");
  ASSERT_FALSE(raw.ok());
  EXPECT_NE(raw.error().message().find("needs a model of one input; this model has 2: 'x', 'k'"),
            std::string::npos);
}

TEST(BinaryInferRequest, ErrorNamesTheMissingHeader) {
  const std::string tensor("\0\0\x80?\0\0\0@", 8);
  const std::string header = input_with(kShape + R"(,"parameters":{"binary_data_size":16})");
  for (const std::string& body : {tensor + tensor, header + tensor + tensor}) {
    const auto request = parse(one_input(), body);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(request.error().message().find(
                  "Inference-Header-Content-Length: give 0 if the body is only the tensor"),
              std::string::npos)
        << request.error().message();
  }
  for (const std::string& text : {std::string("not json"), std::string("{\"id\":1,\n\t}"), std::string()}) {
    const auto request = parse(one_input(), text);
    ASSERT_FALSE(request.ok());
    EXPECT_EQ(request.error().message().find("Inference-Header"), std::string::npos)
        << request.error().message();
  }
}

template <class T>
void check_integer(const std::string& datatype) {
  const std::string lowest = std::to_string(std::numeric_limits<T>::lowest()),
                    highest = std::to_string(std::numeric_limits<T>::max());
  const auto request = [&](const std::string& data) {
    return parse(one_input(datatype, {1, 2}), R"({"inputs":[{"name":"x","shape":[1,2],"datatype":")" +
                                                  datatype + R"(","data":[)" + data + "]}]}");
  };
  const auto good = request(lowest + "," + highest);
  ASSERT_TRUE(good.ok()) << datatype << ": " << good.error().message();
  EXPECT_EQ(values<T>(good->inputs[0]),
            (std::vector<T>{std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()}));
  std::string above = highest;  // highest + 1, because the last digit of `highest` is 5 or 7
  ++above.back();
  for (const std::string& bad : {above, lowest == "0" ? std::string("-1") : lowest + "0", std::string("1.5"),
                                 std::string("1.0"), std::string("true")}) {
    const auto refused = request("0," + bad);
    ASSERT_FALSE(refused.ok()) << datatype << " took " << bad;
    EXPECT_NE(refused.error().message().find(".data[1] is "), std::string::npos) << refused.error().message();
    EXPECT_NE(refused.error().message().find("not a value of " + datatype), std::string::npos)
        << refused.error().message();
  }
}

TEST(JsonNumbers, NeverWrapAroundInAnyIntegerType) {
  check_integer<std::uint8_t>("UINT8");
  check_integer<std::uint16_t>("UINT16");
  check_integer<std::uint32_t>("UINT32");
  check_integer<std::uint64_t>("UINT64");
  check_integer<std::int8_t>("INT8");
  check_integer<std::int16_t>("INT16");
  check_integer<std::int32_t>("INT32");
  check_integer<std::int64_t>("INT64");
}

TEST(JsonNumbers, AreNeitherReadFromBooleansNorConvertedToHalfPrecision) {
  const auto request = [](const std::string& datatype, const std::string& data) {
    return parse(one_input(datatype, {1, 2}), R"({"inputs":[{"name":"x","shape":[1,2],"datatype":")" +
                                                  datatype + R"(","data":)" + data + "}]}");
  };
  const auto good = request("BOOL", "[true,false]");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(values<std::uint8_t>(good->inputs[0]), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_FALSE(request("BOOL", "[1,0]").ok());
  for (const char* type : {"FP16", "BF16"}) {
    const auto refused = request(type, "[1,0]");
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message().find("must be sent as binary data"), std::string::npos);
  }
}

TEST(JsonNumbers, PreserveFloatsExactly) {
  const std::uint32_t seed = 20240613;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto model = one_input("FP32", {1, 1000});
  std::vector<float> sent;
  while (sent.size() < 1000) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) sent.push_back(value);
  }
  std::string body = R"({"inputs":[{"name":"x","shape":[1,1000],"datatype":"FP32","data":)";
  ASSERT_TRUE(append_numbers(body, "FP32", std::as_bytes(std::span(sent)), "x").ok());
  const auto request = parse(model, body + "}]}");
  ASSERT_TRUE(request.ok()) << request.error().message();
  EXPECT_EQ(std::memcmp(request->inputs[0].data(), sent.data(), sent.size() * 4), 0);
}

TEST(JsonRequests, WithMoreNumbersThanTheModelInputAreRefused) {
  std::string body = R"({"inputs":[)";
  for (int i = 0; i < 100; ++i) body += R"({"name":"x","data":[1,2,3]},)";
  const auto request = parse(two_inputs(), body + "{}]}");
  ASSERT_FALSE(request.ok());
  EXPECT_NE(request.error().message().find("inputs[2].data: the tensors hold more than 7 elements"),
            std::string::npos)
      << request.error().message();
}

TEST(JsonRequests, NeverCrashTheParserWhenTruncatedOrAltered) {
  const std::uint32_t seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  const std::string good =
      R"({"id":"7\u00e9","parameters":{"timeout":5,"o":{"a":[1,"b",null]}},"inputs":[{"name":"x","shape":[1,2,2],)"
      R"("datatype":"FP32","parameters":{"binary_data_size":16}}],"outputs":[{"name":"y","parameters":{"classification":2}}]})" +
      std::string(16, '\x3f');
  const std::string length = std::to_string(good.size() - 16);
  ASSERT_TRUE(parse(one_input(), good, length).ok());
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_FALSE(parse(one_input(), good.substr(0, cut), length).ok()) << cut;
  std::mt19937 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string changed = good;
    for (int n = 0; n < 3; ++n) changed[random() % changed.size()] = static_cast<char>(random());
    const auto request = parse(one_input(), changed, length);
    if (request.ok()) {
      EXPECT_EQ(request->inputs.size(), 1U);
      EXPECT_EQ(request->inputs[0].size(), 16U);
    }
  }
}

TEST(InferRequest, ErrorsNeverCutALongNameInsideACharacter) {
  std::string name = "a";
  for (int i = 0; i < 100; ++i) name += "\xC3\xA9";
  const auto refused = parse(
      one_input(), R"({"inputs":[{"name":")" + name + R"(","shape":[1],"datatype":"FP32","data":[1]}]})");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("\xC3\xA9\xE2\x80\xA6'"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace millrace::server::http::test_infer_protocol
