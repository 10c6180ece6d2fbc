// Tests what the server refuses: requests over a limit, malformed requests, and more bytes than it may keep.

#include <gtest/gtest.h>
#include <malloc.h>

#include <span>
#include <vector>

#include "http_server_fixture.hpp"
#include "server/http/connection/coding.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::http::test_http_limits {
namespace {

using namespace std::string_literals;

TEST_F(HttpServer, RefusesABodyOverTheLimitBeforeAndWhileItArrives) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  options.linger = 60s;  // enough to send an unwanted body on a slow machine
  start(options);
  RawClient announced = client();
  const Answer early =
      announced.exchange("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(early.status, 413);
  EXPECT_EQ(early.headers.at("connection"), "close");
  RawClient chunked = client();
  const Answer late = chunked.exchange("POST " + kInferTarget +
                                       " HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                                       std::string(2000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(late.status, 413);
  RawClient sending = client();
  sending.send(post(kInferTarget, std::string(3'000'000, 'x')));
  EXPECT_EQ(sending.receive().status, 413);
}

TEST_F(HttpServer, RefusesAHeaderOverTheLimitAndMalformedHttp) {
  ServerOptions options;
  options.max_header_bytes = 1000;
  start(options);
  RawClient long_header = client();
  EXPECT_EQ(
      long_header.exchange("GET /v2 HTTP/1.1\r\nHost: t\r\nX: " + std::string(2000, 'a') + "\r\n\r\n").status,
      431);
  for (const char* nonsense :
       {"hello\r\n\r\n", "GET /v2 HTTP/9.9\r\n\r\n", "GET  HTTP/1.1\r\nHost: t\r\n\r\n",
        "POST /v2 HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
        "POST /v2 HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /v2 HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    RawClient to = client();
    const Answer answer = to.exchange(nonsense);
    EXPECT_EQ(answer.status, 400) << nonsense;
    EXPECT_TRUE(to.closed_by_server()) << nonsense;
  }
  EXPECT_EQ(client().exchange(get("/v2")).status, 200);
}

/// If a proxy and the server disagree where a request ends, another request can hide in the body (request smuggling).
TEST_F(HttpServer, RefusesARequestWhoseBodyLengthIsAmbiguous) {
  start();
  const std::string head = "POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\n";
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string hidden = "GET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n";
  const std::vector<std::pair<const char*, std::string>> requests = {
      {"two lengths", head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"},
      {"two lengths, the first longer", head + "Content-Length: 3\r\nContent-Length: 2\r\n\r\n{}"},
      {"a list of lengths", head + "Content-Length: 2, 3\r\n\r\n{}"},
      {"a sign", head + "Content-Length: +2\r\n\r\n{}"},
      {"no length", head + "Content-Length: \r\n\r\n{}"},
      {"hexadecimal", head + "Content-Length: 0x2\r\n\r\n{}"},
      {"a space inside", head + "Content-Length: 1 0\r\n\r\n{}"},
      {"2^64 + 2", head + "Content-Length: 18446744073709551618\r\n\r\n{}"},
      {"more digits than any number has", head + "Content-Length: " + std::string(500, '9') + "\r\n\r\n{}"},
      {"a bare CR in a value", head + "X: a\rContent-Length: 2\r\n\r\n{}"},
      {"a NUL in a value", head + "X: a\0b\r\nContent-Length: 2\r\n\r\n{}"s},
      {"a NUL in a name", head + "X\0: b\r\nContent-Length: 2\r\n\r\n{}"s},
      {"a space before the colon", head + "Content-Length : 2\r\n\r\n{}"},
      {"a tab before the colon", head + "Content-Length\t: 2\r\n\r\n{}"},
      {"a space before the first name", "POST " + kInferTarget + " HTTP/1.1\r\n Host: t\r\n\r\n"},
      {"a line without a colon", head + "Content-Length\r\n\r\n{}"},
      {"a chunk longer than it says", chunked + "2\r\n{} \r\n0\r\n\r\n"},
      {"a chunk without its end of line", chunked + "2\r\n{}0\r\n\r\n"},
      {"0x before a chunk's length", chunked + "0x2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk's length with a sign", chunked + "+2\r\n{}\r\n0\r\n\r\n"},
      {"a chunk's length over 2^64", chunked + "10000000000000002\r\n{}\r\n0\r\n\r\n"},
      {"a chunk without a length", chunked + "\r\n{}\r\n0\r\n\r\n"},
      {"chunks over HTTP/1.0", "POST " + kInferTarget +
                                   " HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n"
                                   "\r\n2\r\n{}\r\n0\r\n\r\n"},
  };
  for (const auto& [what, request] : requests) {
    RawClient to = client();
    const Answer answer = to.exchange(request + hidden);
    EXPECT_EQ(answer.status, 400) << what;
    EXPECT_NE(answer.body.find("malformed HTTP"), std::string::npos) << what << ": " << answer.body;
    EXPECT_EQ(to.receive().status, 0) << what << ": nothing more is answered";
  }
  EXPECT_EQ(client().exchange(get("/v2")).status, 200);
}

TEST_F(HttpServer, RequiresExactlyOneValidHostHeader) {
  start();
  const auto status_with = [this](const std::string& version, const std::string& lines) {
    RawClient to = client();
    const Answer answer = to.exchange("GET /v2/health/live HTTP/" + version + "\r\n" + lines + "\r\n");
    if (answer.status == 400) {
      EXPECT_NE(answer.body.find("Host"), std::string::npos) << answer.body;
      EXPECT_TRUE(to.closed_by_server()) << lines;
    }
    return answer.status;
  };
  for (const std::string host : {"t", "", "localhost:8000", "127.0.0.1", "a_b-c.example:", "[::1]",
                                 "[::1]:80", "[fe80::1%25eth0]:8000", "%41~(x)"})
    EXPECT_EQ(status_with("1.1", "Host: " + host + "\r\n"), 200) << host;
  for (const std::string host :
       {"a b", "a/b", "a:b", "::1", "[::1", "[]", "[::1]x", "u@h", "h:80:80", "h,\"", "h\xc3\xa4"})
    EXPECT_EQ(status_with("1.1", "Host: " + host + "\r\n"), 400) << host;
  EXPECT_EQ(status_with("1.1", ""), 400);
  EXPECT_EQ(status_with("1.1", "X-Host: t\r\n"), 400);
  EXPECT_EQ(status_with("1.1", "Host: t\r\nHost: t\r\n"), 400);
  EXPECT_EQ(status_with("1.1", "Host: t\r\nX: y\r\nhost: u\r\n"), 400);
  EXPECT_EQ(status_with("1.0", ""), 200);
  EXPECT_EQ(status_with("1.0", "Host: t\r\n"), 200);
  EXPECT_EQ(status_with("1.0", "Host: t\r\nHost: u\r\n"), 400);
}

TEST_F(HttpServer, RefusesARequestWithoutAHostHeaderBeforeItsBodyIsSent) {
  start();
  RawClient to = client();
  const Answer answer = to.exchange("POST " + kInferTarget + " HTTP/1.1\r\nContent-Length: 16\r\n\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.body, R"({"error":"malformed HTTP: a request over HTTP/1.1 needs the header Host"})");
}

TEST_F(HttpServer, RefusesChunkExtensionsAndTrailersOverTheLimit) {
  ServerOptions options;
  options.max_header_bytes = 4096;
  options.linger = 60s;
  start(options);
  const std::string head =
      "POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string much(1U << 20U, 'a');
  for (const std::string& begin : {std::string("2;"), std::string("2\r\n{}\r\n0\r\n"),
                                   std::string("2\r\n{}\r\n0\r\nX: y\r\nX: "), std::string("2 ")}) {
    RawClient to = client();
    to.send(head + begin + much);  // the line never ends
    const Answer answer = to.receive();
    EXPECT_TRUE(answer.status == 431 || answer.status == 400) << begin << answer.status;
    EXPECT_TRUE(to.closed_by_server()) << begin;
  }
  RawClient to = client();
  to.send(head + "3;" + std::string(1000, 'a') + "\r\n{ }\r\n0\r\nX: " + std::string(1000, 'a') + "\r\n\r\n");
  EXPECT_EQ(to.receive().status, 400) << "short ones are passed over, and the body has no inputs";
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200) << "the connection goes on";
}

TEST_F(HttpServer, NeverReadsABodyInAnUnknownTransferCodingAsARequest) {
  start();
  for (const std::string coding : {"gzip", "gzip, chunked", "chunked, gzip", "identity", "chunked, chunked",
                                   "chunked\r\nTransfer-Encoding: gzip", "x"}) {
    RawClient to = client();
    const Answer answer =
        to.exchange("POST /v2/repository/index HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: " + coding +
                    "\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: t\r\n\r\n");
    EXPECT_TRUE(answer.status == 501 || answer.status == 400) << coding << ": " << answer.status;
    EXPECT_EQ(to.receive().status, 0) << coding << ": nothing more is answered";
  }
  RawClient to = client();
  EXPECT_EQ(to.exchange("POST " + kInferTarget +
                        " HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\n{}"
                        "\r\n0\r\n\r\n")
                .status,
            400)
      << "of its body";
}

TEST_F(HttpServer, BoundsTheTotalSizeOfTheBodiesOfAllConnections) {
  ServerOptions options;
  options.max_held_bytes = 100'000;
  start(options);
  const std::string head = "POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n";
  RawClient holder = client();
  ASSERT_TRUE(holder.send(head + std::string(59'999, ' ')));
  RawClient announced = client();
  Answer answer;
  ASSERT_TRUE(tests::wait_until([&] {
    announced = client();
    announced.send(head);  // the server refuses the request before the body is sent
    announced.shutdown_send();
    answer = announced.receive();
    return answer.status == 503;
  })) << "the first body is read and counted";
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_TRUE(announced.closed_by_server());
  RawClient chunked = client();  // a chunked request does not announce its length
  EXPECT_EQ(chunked
                .exchange("POST " + kInferTarget +
                          " HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nEA60\r\n" +
                          std::string(60'000, ' '))
                .status,
            503);
  EXPECT_EQ(client().exchange(post(kInferTarget, kJsonInput)).status, 200) << "small ones fit beside it";
  EXPECT_EQ(holder.exchange(" ").status, 400) << "only spaces";
  EXPECT_EQ(client().exchange(head + std::string(60'000, ' ')).status, 400) << "what was held is given back";
  holder.close();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client().send(head + std::string(50'000, ' '))) << "given up half way";
  }
  EXPECT_TRUE(tests::wait_until([&] {
    return client().exchange(head + std::string(60'000, ' ')).status == 400;
  })) << "what clients gave up is given back";
}

TEST_F(HttpServer, CountsTheBodyOfAHeadRequestTowardsTheByteLimit) {
  ServerOptions options;
  options.max_held_bytes = 100'000;
  start(options);
  const auto head = [](int bytes) {
    return "HEAD /v2 HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n";
  };
  RawClient large = client();
  ASSERT_TRUE(large.send(head(100'001)));
  EXPECT_EQ(large.receive_head()->status, 503) << "refused before its body is sent";

  RawClient holder = client();
  ASSERT_TRUE(holder.send(head(60'000) + std::string(59'999, ' ')));
  const std::string other = "POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n";
  EXPECT_TRUE(tests::wait_until([&] {
    RawClient announced = client();
    announced.send(other);
    announced.shutdown_send();
    return announced.receive().status == 503;
  })) << "the body is read and counted";
  ASSERT_TRUE(holder.send(" "));
  EXPECT_EQ(holder.receive_head()->status, 200);
  EXPECT_EQ(client().exchange(other + std::string(60'000, ' ')).status, 400) << "it is given back";
}

/// Returns enough frame records for a trace of more than `bytes` bytes.
std::vector<runtime::pipeline::FrameRecord> frames_for(std::size_t bytes) {
  const auto at = [](int microseconds) {
    return runtime::pipeline::Clock::time_point(std::chrono::microseconds(microseconds));
  };
  return std::vector<runtime::pipeline::FrameRecord>(bytes / 100,
                                                     {7, 1, 3, at(0), at(5), at(7), at(20), at(21)});
}

TEST_F(HttpServer, RefusesLargeAnswersOverTheLimitOfBufferedBytes) {
  ServerOptions options;
  options.max_held_bytes = 500'000;
  options.compress_from_bytes = 0;
  start(options);
  pipeline->set_recent(frames_for(20'000));
  RawClient holder = client(), reader = client();
  const Answer trace = reader.exchange(get("/v2/millrace/trace"));
  ASSERT_EQ(trace.status, 200);
  ASSERT_GT(trace.body.size(), 20'000U);
  ASSERT_LT(trace.body.size(), 500'000U);
  const std::string body(499'000, ' ');
  ASSERT_TRUE(holder.send("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 499000\r\n\r\n" +
                          body.substr(1)));
  Answer answer;
  ASSERT_TRUE(tests::wait_until([&] {
    reader = client();
    answer = reader.exchange(get("/v2/millrace/trace", "X-Request-Id: abc-1\r\n"));
    return answer.status == 503;
  })) << "the body is read and counted";
  EXPECT_EQ(answer.headers["retry-after"], "1");
  EXPECT_EQ(answer.headers["x-request-id"], "abc-1");
  EXPECT_TRUE(reader.closed_by_server());
  EXPECT_EQ(client().exchange(get("/v2/health/live")).status, 200);
  RawClient head = client();
  head.send("HEAD /v2/millrace/trace HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(head.receive_head()->status, 200) << "has no body";
  EXPECT_EQ(holder.exchange(" ").status, 400) << "only spaces; a small answer";
  EXPECT_EQ(client().exchange(get("/v2/millrace/trace")).body, trace.body) << "what was held is given back";
}

TEST_F(HttpServer, AnIdleConnectionHoldsNoMemoryForBodiesOrAnswers) {
  ServerOptions options;
  options.compress_from_bytes = 0;
  start(options);
  pipeline->set_recent(frames_for(300'000));
  const std::string spaces(4'000'000, ' ');
  const auto part = std::as_bytes(std::span(spaces));
  const std::string coded =
      post(kInferTarget, encoded(Coding::kGzip, std::span(&part, 1)), "Content-Encoding: gzip\r\n");
  const auto in_use = [] {
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  std::vector<RawClient> clients;
  const auto all_ask = [&](const std::string& request, int status) {
    for (auto& to : clients) EXPECT_EQ(to.exchange(request).status, status);
    for (auto& to : clients) EXPECT_EQ(to.exchange(get("/v2/health/live")).status, 200);
  };
  for (int i = 0; i < 10; ++i) clients.push_back(client());
  all_ask(get("/v2/health/live"), 200);
  const auto before = in_use();
  all_ask(coded, 400);
  EXPECT_LT(in_use(), before + 4'000'000) << "bodies, of 40 MB together";
  const auto after_bodies = in_use();
  for (auto& to : clients) EXPECT_EQ(to.exchange(get("/v2/millrace/trace")).status, 200);
  EXPECT_EQ(client().exchange(get("/v2/health/live")).status, 200);
  EXPECT_LT(in_use(), after_bodies + 2'000'000) << "answers, of 3 MB together at the least";
}

}  // namespace
}  // namespace millrace::server::http::test_http_limits
