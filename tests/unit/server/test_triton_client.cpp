// Tests the server with the requests of Triton's Python client (tritonclient.http over geventhttpclient), byte for
// byte, and reads the answers like that client. The requests were recorded from tritonclient's repository at 58a44ca
// over geventhttpclient 2.3.8. No Debian or npm package has the client; tools/triton-client runs it from source.

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <span>
#include <string>
#include <vector>

#include "http_server_fixture.hpp"
#include "server/http/connection/coding.hpp"

namespace millrace::server::http::test_triton_client {
namespace {

namespace json = boost::json;

class TritonClient : public HttpServer {
 protected:
  void SetUp() override { start(); }

  /// Returns the head of a request. Triton's client writes `headers` before the Host header.
  std::string head(const std::string& line, const std::string& headers = {}) const {
    return line + " HTTP/1.1\r\nUser-Agent: python/gevent-http-client-2.3.8\r\n" + headers +
           "Host: " + server->address() + "\r\n";
  }
  Answer get_as_client(const std::string& path) {
    return connection().exchange(head("GET " + path) + "\r\n");
  }
  Answer post_as_client(const std::string& path, const std::string& body, const std::string& headers = {}) {
    return connection().exchange(head("POST " + path, headers) +
                                 "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  /// Returns the connection for all calls, because Triton's client keeps one connection.
  RawClient& connection() {
    if (!connection_) connection_.emplace(server->address());
    return *connection_;
  }

  static std::string coded(Coding coding, std::string_view text) {
    const auto part = std::as_bytes(std::span(text));
    return encoded(coding, std::span(&part, 1));
  }

  /// The two parts of an answer, as the client's class InferResult divides them: the JSON, whose length is in a header,
  /// and the bytes of the outputs.
  struct Result {
    json::value document;
    std::string tensors;
  };
  static Result read(const Answer& answer) {
    std::string body = answer.body;
    if (const auto coding = answer.headers.find("content-encoding"); coding != answer.headers.end()) {
      const auto plain = decoded(*parse_coding(coding->second), std::as_bytes(std::span(body)), 1U << 20U);
      EXPECT_TRUE(plain.ok());
      body.assign(reinterpret_cast<const char*>(plain->data()), plain->size());
    }
    std::size_t length = body.size();
    if (const auto found = answer.headers.find("inference-header-content-length");
        found != answer.headers.end())
      length = std::stoul(found->second);
    return {json::parse(body.substr(0, length)), body.substr(length)};
  }

 private:
  std::optional<RawClient> connection_;
};

const std::string kTensor = test::bytes_of_values({1.5F, -2.F, 0.25F, 300.F});
const std::string kInput =
    R"({"name":"x","shape":[1,2,2],"datatype":"FP32","parameters":{"binary_data_size":16}})";

std::string length_header(const std::string& header) {
  return "Inference-Header-Content-Length: " + std::to_string(header.size()) + "\r\n";
}

TEST_F(TritonClient, ReadsHealthFromTheHttpStatusOnly) {
  for (const char* path : {"/v2/health/live", "/v2/health/ready", "/v2/models/small/ready",
                           "/v2/models/small/versions/1/ready", "/v2/health/live?verbose=1"})
    EXPECT_EQ(get_as_client(path).status, 200) << path;
  EXPECT_NE(get_as_client("/v2/models/other/ready").status, 200);
}

TEST_F(TritonClient, MetadataAndConfigurationHaveTheKeysThatTheClientReads) {
  const json::value server_metadata = json::parse(get_as_client("/v2").body);
  for (const char* key : {"name", "version", "extensions"})
    EXPECT_TRUE(server_metadata.as_object().contains(key)) << key;
  const json::value model = json::parse(get_as_client("/v2/models/small").body);
  for (const char* key : {"name", "versions", "platform", "inputs", "outputs"})
    EXPECT_TRUE(model.as_object().contains(key)) << key;
  EXPECT_EQ(model.at("inputs").at(0).at("datatype").as_string(), "FP32");
  const json::value config = json::parse(get_as_client("/v2/models/small/versions/1/config").body);
  EXPECT_EQ(config.at("max_batch_size").to_number<int>(), 0);
  EXPECT_EQ(config.at("input").at(0).at("data_type").as_string(), "TYPE_FP32");
  EXPECT_EQ(config.at("output").at(0).at("name").as_string(), "y");
}

TEST_F(TritonClient, ReadsStatisticsOfOneModelAndOfAllModels) {
  for (const char* path :
       {"/v2/models/stats", "/v2/models/small/stats", "/v2/models/small/versions/1/stats"}) {
    const json::value stats = json::parse(get_as_client(path).body);
    const json::value& one = stats.at("model_stats").at(0);
    for (const char* key : {"name", "version", "last_inference", "inference_count", "execution_count",
                            "inference_stats", "batch_stats"})
      EXPECT_TRUE(one.as_object().contains(key)) << path << " " << key;
    for (const char* key : {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output",
                            "cache_hit", "cache_miss"})
      EXPECT_TRUE(one.at("inference_stats").at(key).as_object().contains("ns")) << key;
  }
}

TEST_F(TritonClient, ReadsTheRepositoryIndexAsAList) {
  const Answer without_length = connection().exchange(head("POST /v2/repository/index") + "\r\n");
  EXPECT_EQ(without_length.status, 200);
  const Answer empty = post_as_client("/v2/repository/index", "");
  const json::value list = json::parse(empty.body);
  EXPECT_EQ(list.at(0).at("name").as_string(), "small");
  EXPECT_EQ(list.at(0).at("state").as_string(), "READY");
  EXPECT_TRUE(list.at(0).as_object().contains("reason"));
}

TEST_F(TritonClient, LoadsAndUnloadsModels) {
  for (const auto& [path, body] :
       {std::pair("/v2/repository/models/small/load", "{}"),
        std::pair("/v2/repository/models/small/load", R"({"parameters":{"config":"{}"}})"),
        std::pair("/v2/repository/models/small/unload", R"({"parameters":{"unload_dependents":false}})")}) {
    const Answer answer = post_as_client(path, body);
    EXPECT_NE(answer.status, 404) << path;
    EXPECT_NE(answer.status, 405) << path;
    if (answer.status == 200) continue;
    EXPECT_TRUE(json::parse(answer.body).as_object().contains("error")) << answer.body;
  }
}

TEST_F(TritonClient, InfersInBinaryWithoutNamedOutputs) {
  const std::string header = R"({"inputs":[)" + kInput + R"(],"parameters":{"binary_data_output":true}})";
  const Answer answer = post_as_client("/v2/models/small/infer", header + kTensor, length_header(header));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "application/octet-stream");
  const Result result = read(answer);
  const json::value& output = result.document.at("outputs").at(0);
  EXPECT_EQ(output.at("parameters").at("binary_data_size").to_number<int>(), 16);
  EXPECT_EQ(output.at("shape"), (json::value{1, 4}));
  EXPECT_EQ(result.tensors, kTensor);
}

TEST_F(TritonClient, InfersWithIdPriorityTimeoutAndNamedOutputs) {
  const std::string header =
      R"({"id":"my_request_id","inputs":[)" + kInput +
      R"(],"outputs":[{"name":"y","parameters":{"binary_data":true}}],"parameters":{"priority":1,"timeout":1000000,"mine":"x"}})";
  const Answer answer =
      post_as_client("/v2/models/small/versions/1/infer", header + kTensor, length_header(header));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Result result = read(answer);
  EXPECT_EQ(result.document.at("id").as_string(), "my_request_id");
  EXPECT_EQ(result.document.at("model_version").as_string(), "1");
  EXPECT_EQ(result.tensors, kTensor);
}

TEST_F(TritonClient, InfersInJson) {
  const std::string body =
      R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1.5,-2.0,0.25,300.0]}],"outputs":[{"name":"y","parameters":{"binary_data":false}}]})";
  const Answer answer = post_as_client("/v2/models/small/infer", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.count("inference-header-content-length"), 0U);
  const Result result = read(answer);
  EXPECT_EQ(result.document.at("outputs").at(0).at("data").as_array().size(), 4U);
  EXPECT_EQ(result.document.at("outputs").at(0).at("data").at(3).to_number<double>(), 300);
}

TEST_F(TritonClient, ReadsAClassificationAsBytesWithLengths) {
  const std::string header =
      R"({"inputs":[)" + kInput +
      R"(],"outputs":[{"name":"y","parameters":{"classification":2,"binary_data":true}}]})";
  const Answer answer = post_as_client("/v2/models/small/infer", header + kTensor, length_header(header));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Result result = read(answer);
  EXPECT_EQ(result.document.at("outputs").at(0).at("datatype").as_string(), "BYTES");
  EXPECT_EQ(result.document.at("outputs").at(0).at("shape"), boost::json::parse("[2]"))
      << "no batch axis where max_batch_size is 0";
  std::vector<std::string> classes;
  for (std::size_t at = 0; at + 4 <= result.tensors.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, result.tensors.data() + at, 4);
    classes.push_back(result.tensors.substr(at + 4, length));
    at += 4 + length;
  }
  EXPECT_EQ(classes, (std::vector<std::string>{"300.000000:3:three", "1.500000:0:zero"}));
}

TEST_F(TritonClient, CompressesRequestsAndResponsesWithGzipAndDeflate) {
  const std::string header = R"({"inputs":[)" + kInput + R"(],"parameters":{"binary_data_output":true}})";
  for (const auto& [name, coding] :
       {std::pair("gzip", Coding::kGzip), std::pair("deflate", Coding::kDeflate)}) {
    const std::string encoding = name;
    const Answer answer =
        post_as_client("/v2/models/small/infer", coded(coding, header + kTensor),
                       "Content-Encoding: " + encoding + "\r\nAccept-Encoding: " + encoding + "\r\n" +
                           length_header(header));
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(read(answer).tensors, kTensor) << name;
    const Answer page =
        connection().exchange(head("GET /metrics", "Accept-Encoding: " + encoding + "\r\n") + "\r\n");
    EXPECT_EQ(page.headers.at("content-encoding"), name) << "long answers are compressed";
  }
}

TEST_F(TritonClient, InfersWithEveryOption) {
  const std::string header =
      R"({"id":"r1","inputs":[)" + kInput +
      R"(],"outputs":[{"name":"y","parameters":{"classification":2,"binary_data":true}}],"parameters":{"priority":1,"timeout":1000000,"mine":"x"}})";
  const Answer answer = post_as_client("/v2/models/small/versions/1/infer?q=1&r=a%20b", header + kTensor,
                                       "X-Extra: 1\r\n" + length_header(header));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(read(answer).document.at("id").as_string(), "r1");
}

/// The request has the bytes that tritonclient.http.aio sends over aiohttp.
TEST_F(TritonClient, InfersWithTheAsynchronousClient) {
  const std::string header =
      R"({"inputs":[)" + kInput + R"(],"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  const std::string body = header + kTensor;
  const Answer answer = connection().exchange(
      "POST /v2/models/small/infer HTTP/1.1\r\nHost: " + server->address() + "\r\n" + length_header(header) +
      "Accept: */*\r\nAccept-Encoding: gzip, deflate\r\nUser-Agent: Python/3.11 "
      "aiohttp/3.8.4\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\nContent-Type: application/octet-stream\r\n\r\n" + body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(read(answer).tensors, kTensor);
}

TEST_F(TritonClient, ReadsTheMessageOfErrors) {
  for (const auto& [path, body] :
       {std::pair("/v2/models/none/infer", "{}"), std::pair("/v2/models/small/infer", "{}"),
        std::pair("/v2/models/small/infer", R"({"inputs":[],"parameters":{"sequence_id":1}})"),
        std::pair("/v2/systemsharedmemory/status", "")}) {
    const Answer answer = post_as_client(path, body);
    EXPECT_GE(answer.status, 400) << path;
    EXPECT_TRUE(json::parse(answer.body).at("error").is_string()) << path;
  }
}

}  // namespace
}  // namespace millrace::server::http::test_triton_client
