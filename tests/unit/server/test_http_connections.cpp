// Connections of the server: the order of answers, limits, start and stop.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "http_server_fixture.hpp"
#include "server/http/connection/coding.hpp"

namespace millrace::server::http {
namespace {

using namespace std::string_literals;

// Connections.

TEST_F(HttpServer, AnswersPipelinedRequestsInOrder) {
  start();
  RawClient to = client();
  to.send(get("/v2/health/live") + post(kInferTarget, kJsonInput) + get("/nowhere") + get("/metrics") +
          post(kInferTarget, kJsonInput));
  EXPECT_EQ(to.receive().body, R"({"live":true})");
  EXPECT_EQ(to.receive().status, 200);
  EXPECT_EQ(to.receive().status, 404);
  EXPECT_NE(to.receive().body.find("millrace_build_info"), std::string::npos);
  EXPECT_EQ(to.receive().status, 200);
}

TEST_F(HttpServer, ReadsARequestThatArrivesByteByByte) {
  start();
  RawClient to = client();
  for (const char byte : post(kInferTarget, kJsonInput)) ASSERT_TRUE(to.send(std::string_view(&byte, 1)));
  EXPECT_EQ(to.receive().status, 200);
}

TEST_F(HttpServer, ClosesAfterTheAnswerIfTheClientAsksForIt) {
  start();
  RawClient close = client();
  EXPECT_EQ(close.exchange("GET /v2/health/live HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
                .headers.at("connection"),
            "close");
  EXPECT_TRUE(close.closed_by_server());
  RawClient old = client();
  EXPECT_TRUE(old.exchange("GET /v2/health/live HTTP/1.0\r\n\r\n").head.starts_with("HTTP/1.0 200"));
  EXPECT_TRUE(old.closed_by_server());
  RawClient kept = client();
  EXPECT_EQ(kept.exchange("GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                .headers.at("connection"),
            "keep-alive");
  EXPECT_EQ(kept.exchange("GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").status, 200);
}

TEST_F(HttpServer, GivesEachOfManyClientsItsOwnAnswer) {
  ServerOptions options;
  options.io_threads = 2;
  start(options);
  constexpr int kClients = 3, kRequests = 200;
  std::vector<std::jthread> threads;
  std::atomic<int> right{0}, refused{0};
  for (int c = 0; c < kClients; ++c)
    threads.emplace_back([&, c] {
      RawClient to = client();
      for (int i = 0; i < kRequests; ++i) {
        const std::string tensor = test::bytes_of_values<std::int32_t>({c, i, c + i, -i});
        const Answer answer =
            to.exchange(post(kInferTarget, tensor, "Inference-Header-Content-Length: 0\r\n"));
        if (answer.status == 429) ++refused;
        if (answer.status == 200 && answer.body.ends_with(tensor)) ++right;
      }
    });
  threads.clear();
  EXPECT_EQ(right + refused, kClients * kRequests);
  EXPECT_EQ(refused, 0);
}

TEST_F(HttpServer, CancelsAQueuedRequestWhenItsClientGoesAway) {
  start();
  pipeline->hold();
  {
    RawClient gone = client();
    gone.send(post(kInferTarget, kJsonInput));
    ASSERT_TRUE(pipeline->wait_for_queued(1));
  }
  EXPECT_TRUE(pipeline->wait_for_cancelled(1));
  pipeline->release();
  EXPECT_EQ(client().exchange(post(kInferTarget, kJsonInput)).status, 200);
}

TEST_F(HttpServer, KeepsAQueuedRequestWhenItsClientSendsTheNext) {
  start();
  pipeline->hold();
  RawClient to = client();
  to.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  to.send(get("/v2/health/live"));
  std::this_thread::sleep_for(20ms);
  pipeline->release();
  EXPECT_EQ(to.receive().status, 200);
  EXPECT_EQ(to.receive().body, R"({"live":true})");
}

// Limits.

TEST_F(HttpServer, RefusesABodyOverTheLimitBeforeAndWhileItArrives) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  options.linger = 60s;  // for as long as this machine takes to send a body nobody wants
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

/// If a proxy and the server find different ends of a request, a second request can hide in it (request
/// smuggling).
TEST_F(HttpServer, RefusesARequestWithAnAmbiguousEnd) {
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

TEST_F(HttpServer, RequiresExactlyOneValidHost) {
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

TEST_F(HttpServer, RefusesARequestWithoutAHostBeforeItsBodyIsSent) {
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
    to.send(head + begin + much);  // and no end of it
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

TEST_F(HttpServer, ClosesAnIdleConnection) {
  ServerOptions options;
  options.idle_timeout = 100ms;
  start(options);
  RawClient idle = client();
  EXPECT_TRUE(idle.closed_by_server());
}

TEST_F(HttpServer, TimesOutASlowHeader) {
  ServerOptions options;
  options.header_timeout = 100ms;
  start(options);
  RawClient header = client();
  EXPECT_EQ(header.exchange("GET /v2 HT").status, 408);
  EXPECT_TRUE(header.closed_by_server());
}

TEST_F(HttpServer, TimesOutASlowBody) {
  ServerOptions options;
  options.body_timeout = 100ms;
  start(options);
  RawClient body = client();
  EXPECT_EQ(
      body.exchange("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n123").status,
      408);
  EXPECT_TRUE(body.closed_by_server());
}

TEST_F(HttpServer, ReadTimeoutsDoNotEndALongInference) {
  ServerOptions options;
  options.idle_timeout = options.header_timeout = options.body_timeout = options.write_timeout = 500ms;
  start(options);
  pipeline->hold();
  RawClient to = client();
  to.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(1000ms);
  pipeline->release();
  EXPECT_EQ(to.receive().status, 200);
}

TEST_F(HttpServer, RefusesConnectionsOverTheLimitUntilOthersClose) {
  ServerOptions options;
  options.max_connections = 2;
  start(options);
  RawClient first = client(), second = client();
  EXPECT_EQ(first.exchange(get("/v2")).status, 200);
  EXPECT_EQ(second.exchange(get("/v2")).status, 200);
  RawClient third = client();
  EXPECT_EQ(third.receive().status, 503);
  EXPECT_TRUE(third.closed_by_server());
  first.close();
  third.close();
  Answer answer;
  for (int tries = 0; tries < 1000 && answer.status != 200; ++tries) {
    answer = client().exchange(get("/v2"));
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(answer.status, 200);
}

TEST_F(HttpServer, BoundsTheBodiesOfAllConnectionsTogether) {
  ServerOptions options;
  options.max_held_bytes = 100'000;
  start(options);
  const std::string head = "POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n";
  RawClient holder = client();
  ASSERT_TRUE(holder.send(head + std::string(59'999, ' ')));
  RawClient announced = client();  // refused before its body was sent
  Answer answer;
  for (int tries = 0; tries < 1000 && answer.status != 503; ++tries) {
    announced = client();
    announced.send(head);
    announced.shutdown_send();
    answer = announced.receive();
    std::this_thread::sleep_for(2ms);
  }
  ASSERT_EQ(answer.status, 503) << "the first body is read and counted";
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_TRUE(announced.closed_by_server());
  RawClient chunked = client();  // says nothing of its length
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
  for (int tries = 0; tries < 1000 && answer.status != 400; ++tries) {
    answer = client().exchange(head + std::string(60'000, ' '));
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(answer.status, 400) << "what clients gave up is given back";
}

/// Enough frames for a trace of more than `bytes`.
std::vector<runtime::pipeline::FrameRecord> frames_for(std::size_t bytes) {
  const auto at = [](int microseconds) {
    return runtime::pipeline::Clock::time_point(std::chrono::microseconds(microseconds));
  };
  return std::vector<runtime::pipeline::FrameRecord>(bytes / 100,
                                                     {7, 1, 3, at(0), at(5), at(7), at(20), at(21)});
}

TEST_F(HttpServer, RefusesLargeAnswersOverTheBoundOnHeldBytes) {
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
  for (int tries = 0; tries < 1000 && answer.status != 503; ++tries) {
    reader = client();
    answer = reader.exchange(get("/v2/millrace/trace", "X-Request-Id: abc-1\r\n"));
    std::this_thread::sleep_for(2ms);
  }
  ASSERT_EQ(answer.status, 503) << "the body is read and counted";
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

TEST_F(HttpServer, AnIdleConnectionKeepsNoBodyAndNoAnswer) {
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

TEST_F(HttpServer, ScrapesDoNotWaitForDocumentsWhoseQueueIsBounded) {
  start();
  std::atomic<bool> hanging{true};
  std::atomic<int> asked{0};
  pipeline->on_status = [&] {
    if (asked++ == 0)
      while (hanging) std::this_thread::sleep_for(1ms);
  };
  RawClient first = client(), probe = client();
  ASSERT_TRUE(first.send(get("/v2/millrace/status")));
  while (asked == 0) std::this_thread::yield();
  std::jthread in_the_end([&](const std::stop_token& stop) {  // a scrape that waits must not wait for ever
    for (int i = 0; i < 1000 && !stop.stop_requested(); ++i) std::this_thread::sleep_for(10ms);
    hanging = false;
  });
  EXPECT_EQ(probe.exchange(get("/metrics")).status, 200);
  EXPECT_TRUE(hanging) << "the scrape came first";

  std::vector<RawClient> waiting;
  for (int i = 0; i < 63; ++i) {
    waiting.push_back(client());
    ASSERT_TRUE(waiting.back().send(get("/v2/millrace/trace")));
    EXPECT_EQ(probe.exchange(get("/v2/health/live")).status, 200);
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(probe.exchange(get("/v2/health/live")).status, 200);
  Answer refused = probe.exchange(get("/v2/millrace/trace"));
  EXPECT_EQ(refused.status, 503) << "one runs and 63 wait";
  EXPECT_EQ(refused.headers["retry-after"], "1");
  EXPECT_EQ(probe.exchange(get("/metrics")).status, 200) << "the connection goes on";
  in_the_end.request_stop();
  in_the_end.join();
  EXPECT_EQ(first.receive().status, 200);
  for (auto& to : waiting) EXPECT_EQ(to.receive().status, 200);
  EXPECT_EQ(probe.exchange(get("/v2/millrace/trace")).status, 200);
}

TEST_F(HttpServer, AnswersHealthWhileAHangingCardDelaysAScrape) {
  start();
  std::atomic<bool> hanging{true};
  std::atomic<int> asked{0};
  pipeline->on_status = [&] {
    ++asked;
    while (hanging) std::this_thread::sleep_for(1ms);
  };
  RawClient scraper = client();
  scraper.send(get("/metrics"));
  while (asked == 0) std::this_thread::yield();
  pipeline->set_ready(false);
  RawClient probe = client();
  EXPECT_EQ(probe.exchange(get("/v2/health/ready")).status, 503);
  EXPECT_EQ(probe.exchange(get("/v2/models/small/ready")).status, 503);
  pipeline->set_ready(true);
  EXPECT_EQ(probe.exchange(get("/v2/health/ready")).status, 200);
  EXPECT_EQ(probe.exchange(get("/v2/models/small/ready")).status, 200);
  EXPECT_EQ(asked, 1);
  hanging = false;
  EXPECT_EQ(scraper.receive().status, 200);
}

TEST_F(HttpServer, AnswersExceptionsOfARequestAndGoesOn) {
  start();
  RawClient to = client();
  pipeline->on_status = [] { throw std::bad_alloc(); };
  const Answer no_memory = to.exchange(get("/v2/millrace/status"));
  EXPECT_EQ(no_memory.status, 503);
  EXPECT_EQ(no_memory.body, R"({"error":"out of memory for this request"})");
  pipeline->on_status = [] { throw std::logic_error("a bug"); };
  EXPECT_EQ(to.exchange(get("/v2/millrace/status")).status, 500);
  pipeline->on_status = [] {};
  EXPECT_EQ(to.exchange(get("/v2/millrace/status")).status, 200) << "the connection goes on";
}

TEST_F(HttpServer, ErrorsAboutInvalidUtf8AreValidJson) {
  start();
  const Answer answer = client().exchange(get("/v2/models/%ff%fe"));
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.body.find("'\xEF\xBF\xBD\xEF\xBF\xBD'"), std::string::npos)
      << testing::PrintToString(answer.body);
}

// Start and stop.

TEST_F(HttpServer, ErrorSaysThatThePortIsInUse) {
  start();
  ServerOptions options;
  options.listen = {parse_listen_address(server->address(), "--http").value()};
  const auto second = Server::open(options, api, registry, *metrics);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
  EXPECT_EQ(client().exchange(post(kInferTarget, kJsonInput)).status, 200) << "the first goes on";
}

TEST_F(HttpServer, HoldsItsPortFromBindAndServesFromStart) {
  auto bound = Server::bind({}, api, registry, *metrics);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_FALSE(RawClient(bound.value()->address()).connected());
  ASSERT_TRUE(bound.value()->start().ok());
  EXPECT_EQ(RawClient(bound.value()->address()).exchange(get("/v2/health/live")).status, 200);
  const auto unused = Server::bind({}, api, registry, *metrics);  // ends without having started
  EXPECT_TRUE(unused.ok());
}

TEST_F(HttpServer, ListensOnIpv6IfTheMachineHasIt) {
  ServerOptions options;
  options.listen = {{HostPort{"::1", 0}}};
  const auto opened = Server::open(options, api, registry, *metrics);
  if (!opened.ok()) GTEST_SKIP() << opened.error().message();
  EXPECT_TRUE(opened.value()->address().starts_with("[::1]:"));
}

TEST_F(HttpServer, DrainsAcceptedRequestsAndRefusesNewOnes) {
  start();
  pipeline->hold();
  RawClient accepted = client();
  accepted.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  server->begin_drain();
  EXPECT_FALSE(server->idle());
  RawClient late = client(), probe = client();
  const Answer refused = late.exchange(post(kInferTarget, kJsonInput));
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.head.find("\r\nConnection: close\r\n"), std::string::npos) << refused.head;
  EXPECT_TRUE(late.closed_by_server()) << "before the server stops";
  EXPECT_EQ(probe.exchange(get("/v2/health/live")).status, 200);
  EXPECT_EQ(probe.exchange(get("/v2/health/ready")).status, 503) << "probes keep their connection";
  std::jthread stopping([this] { server->stop(20'000ms); });
  pipeline->release();
  EXPECT_EQ(accepted.receive().status, 200);
  stopping.join();
  EXPECT_TRUE(accepted.closed_by_server());
  EXPECT_TRUE(probe.closed_by_server());
  EXPECT_FALSE(client().connected());
}

TEST_F(HttpServer, ServesAfterNoticeButIsNotReady) {
  start();
  pipeline->hold();
  RawClient accepted = client(), probe = client();
  accepted.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  server->give_notice();
  pipeline->release();
  const auto expect_last_of = [](RawClient& from, const Answer& answer) {
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.head.find("\r\nConnection: close\r\n"), std::string::npos) << answer.head;
    EXPECT_TRUE(from.closed_by_server());
  };
  expect_last_of(accepted, accepted.receive());
  RawClient fresh = client();
  expect_last_of(fresh, fresh.exchange(post(kInferTarget, kJsonInput)));
  EXPECT_EQ(probe.exchange(get("/v2/health/ready")).status, 503);
  EXPECT_EQ(probe.exchange(get("/v2/models/small/ready")).status, 503);
  EXPECT_EQ(probe.exchange(get("/v2/health/live")).status, 200);
}

TEST_F(HttpServer, StopAnswers503ToRequestsThatOutlastItsBound) {
  start();
  pipeline->hold();
  RawClient stuck = client();
  stuck.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  server->stop(10ms);
  EXPECT_EQ(stuck.receive().status, 503);
}

TEST_F(HttpServer, StopUnderLoadAnswersEveryRequestOrClosesItsConnection) {
  ServerOptions options;
  options.io_threads = 2;
  start(options);
  std::atomic<int> good{0}, wrong{0};
  std::vector<std::jthread> threads;
  for (int c = 0; c < 3; ++c)
    threads.emplace_back([&] {
      RawClient to = client();
      const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
      while (true) {
        const Answer answer =
            to.exchange(post(kInferTarget, tensor, "Inference-Header-Content-Length: 0\r\n"));
        if (answer.status == 0) return;
        if (answer.status == 200 && answer.body.ends_with(tensor))
          ++good;
        else if (answer.status != 503)
          ++wrong;
      }
    });
  while (good < 50) std::this_thread::yield();
  server->stop(5'000ms);
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(HostPort, AcceptsAddressesAndNothingElse) {
  EXPECT_EQ(parse_host_port("[::1]:80", "--http").value().host, "::1");
  EXPECT_EQ(parse_host_port("localhost:0", "--http").value().port, 0);
  for (const char* bad : {"", "localhost", "localhost:", ":80", "localhost:65536", "localhost:-1",
                          "localhost:80x", "::1:80", "[::1:80", "[]:1"}) {
    const auto parsed = parse_host_port(bad, "--http");
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_NE(parsed.error().message().find("--http"), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace::server::http
