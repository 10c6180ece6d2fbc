// Tests the content codings of requests and answers.

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "http_server_fixture.hpp"
#include "server/http/connection/coding.hpp"

namespace millrace::server::http::test_http_codings {
namespace {

std::string coded(Coding coding, std::string_view text) {
  const auto part = std::as_bytes(std::span(text));
  return encoded(coding, std::span(&part, 1));
}

TEST_F(HttpServer, AcceptsBodiesInGzipAndDeflate) {
  start();
  RawClient to = client();
  for (const auto& [name, coding] : {std::pair("gzip", Coding::kGzip), std::pair("deflate", Coding::kDeflate),
                                     std::pair("GZip", Coding::kGzip)}) {
    const Answer answer = to.exchange(
        post(kInferTarget, coded(coding, kJsonInput), "Content-Encoding: " + std::string(name) + "\r\n"));
    EXPECT_EQ(answer.status, 200) << name << answer.body;
    EXPECT_EQ(answer.headers.count("content-encoding"), 0U);
  }
  // As in Triton's client, Inference-Header-Content-Length counts decoded bytes.
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","parameters":{"binary_data_size":16}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
  const Answer binary = to.exchange(post(
      kInferTarget, coded(Coding::kGzip, json + tensor),
      "Content-Encoding: gzip\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n"));
  ASSERT_EQ(binary.status, 200) << binary.body;
  EXPECT_TRUE(binary.body.ends_with(tensor));
}

TEST_F(HttpServer, RefusesADecompressionBombAndDamagedBodies) {
  ServerOptions options;
  options.max_body_bytes = 100'000;
  start(options);
  RawClient to = client();
  const std::string bomb = coded(Coding::kGzip, std::string(10'000'000, ' '));
  ASSERT_LT(bomb.size(), options.max_body_bytes);
  const Answer refused = to.exchange(post(kInferTarget, bomb, "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("more than the limit of 100000 bytes"), std::string::npos) << refused.body;
  const std::string good = coded(Coding::kGzip, kJsonInput);
  for (const std::string& bad : {std::string("nonsense"), std::string(), good.substr(0, good.size() / 2),
                                 good.substr(0, good.size() - 1), good + "more"}) {
    const Answer answer = to.exchange(post(kInferTarget, bad, "Content-Encoding: gzip\r\n"));
    EXPECT_EQ(answer.status, 400) << testing::PrintToString(bad);
  }
  EXPECT_EQ(to.exchange(post(kInferTarget, good, "Content-Encoding: gzip, gzip\r\n")).status, 501);
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput, "Content-Encoding: identity\r\n")).status, 200);
}

TEST_F(HttpServer, ReadsContentEncodingInSeveralLinesAsOneList) {
  start();
  RawClient to = client();
  const std::string zipped = coded(Coding::kGzip, kJsonInput);
  for (const auto& [first, second] :
       {std::pair("identity", "gzip"), std::pair("gzip", "identity"), std::pair("gzip", "deflate"),
        std::pair("gzip", "gzip"), std::pair("identity", "identity"), std::pair("", "gzip"),
        std::pair("gzip", "")})
    for (const std::string& body : {zipped, std::string(kJsonInput)}) {
      const Answer answer =
          to.exchange(post(kInferTarget, body,
                           "Content-Encoding: " + std::string(first) +
                               "\r\nX: y\r\nContent-Encoding: " + std::string(second) + "\r\n"));
      EXPECT_EQ(answer.status, 501) << first << ", " << second << ": " << answer.body;
      EXPECT_NE(answer.body.find("Content-Encoding '" + std::string(first) + ", " + second + "'"),
                std::string::npos)
          << answer.body;
    }
  EXPECT_EQ(to.exchange(post(kInferTarget, zipped, "Content-Encoding: gzip\r\n")).status, 200);
}

TEST_F(HttpServer, CompressesAnswersInTheCodingTheClientPrefers) {
  start();
  RawClient to = client();
  const Answer page = to.exchange(get("/metrics", "Accept-Encoding: deflate;q=0.5, gzip\r\n"));
  ASSERT_EQ(page.status, 200);
  ASSERT_EQ(page.headers.at("content-encoding"), "gzip");
  EXPECT_EQ(page.headers.at("vary"), "Accept-Encoding");
  const auto plain = decoded(Coding::kGzip, std::as_bytes(std::span(page.body)), 1U << 20U);
  ASSERT_TRUE(plain.ok());
  EXPECT_NE(std::string_view(reinterpret_cast<const char*>(plain->data()), plain->size()).find("millrace_"),
            std::string_view::npos);
  EXPECT_EQ(
      to.exchange(get("/metrics", "Accept-Encoding: br, gzip;q=0\r\n")).headers.count("content-encoding"),
      0U);
  EXPECT_EQ(to.exchange(get("/v2", "Accept-Encoding: gzip\r\n")).headers.count("content-encoding"), 0U)
      << "too short to be worth it";
}

TEST(ContentCoding, AcceptsZlibAndRawDeflateAndSeveralGzipMembers) {
  const std::string text(5000, 'a');
  const std::string zlib = coded(Coding::kDeflate, text), gzip = coded(Coding::kGzip, text);
  const auto back = [&](Coding coding, const std::string& bytes) {
    const auto out = decoded(coding, std::as_bytes(std::span(bytes)), 20'000);
    return out.ok() ? std::string(reinterpret_cast<const char*>(out->data()), out->size())
                    : out.error().message();
  };
  EXPECT_EQ(back(Coding::kDeflate, zlib), text);
  EXPECT_EQ(back(Coding::kDeflate, zlib.substr(2, zlib.size() - 6)), text) << "bare, without zlib's frame";
  EXPECT_EQ(back(Coding::kGzip, gzip + gzip), text + text);
  EXPECT_TRUE(decoded(Coding::kGzip, std::as_bytes(std::span(gzip)), 5000).ok()) << "exactly the limit";
  EXPECT_FALSE(decoded(Coding::kGzip, std::as_bytes(std::span(gzip)), 4999).ok());
}

}  // namespace
}  // namespace millrace::server::http::test_http_codings
