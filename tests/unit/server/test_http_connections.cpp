// Tests the server's connections: the order of answers, limits, start and stop.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "http_server_fixture.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::http::test_http_connections {
namespace {

using namespace std::string_literals;

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

TEST_F(HttpServer, ClosesTheConnectionAfterTheAnswerIfTheClientAsksForIt) {
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

TEST_F(HttpServer, CancelsARequestWhenItsClientPipelinesAnotherAndDisconnects) {
  start();
  pipeline->hold();
  {
    RawClient gone = client();
    gone.send(post(kInferTarget, kJsonInput) + get("/v2/health/live"));
    ASSERT_TRUE(pipeline->wait_for_queued(1));
  }
  EXPECT_TRUE(pipeline->wait_for_cancelled(1));
}

TEST_F(HttpServer, KeepsAQueuedRequestWhenItsClientSendsTheNextRequest) {
  start();
  pipeline->hold();
  RawClient to = client();
  to.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  to.send(get("/v2/health/live"));
  std::this_thread::sleep_for(20ms);  // a faulty server would now treat the second request as the end
  pipeline->release();
  EXPECT_EQ(to.receive().status, 200);
  EXPECT_EQ(to.receive().body, R"({"live":true})");
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
  std::this_thread::sleep_for(1000ms);  // longer than every timeout
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
  EXPECT_TRUE(tests::wait_until([&] { return client().exchange(get("/v2")).status == 200; }));
}

TEST_F(HttpServer, MetricsScrapesDoNotWaitForTheBoundedStatusQueue) {
  start();
  std::atomic<bool> hanging{true};
  std::atomic<int> asked{0};
  pipeline->on_status = [&] {
    if (asked++ == 0) hanging.wait(true);
  };
  RawClient first = client(), probe = client();
  ASSERT_TRUE(first.send(get("/v2/millrace/status")));
  while (asked == 0) std::this_thread::yield();
  std::jthread in_the_end([&](const std::stop_token& stop) {  // lets a scrape that waits end
    for (int i = 0; i < 1000 && !stop.stop_requested(); ++i) std::this_thread::sleep_for(10ms);  // <= 10 s
    hanging = false;
    hanging.notify_all();
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

TEST_F(HttpServer, AnswersHealthRequestsWhileAHangingCardDelaysAMetricsRequest) {
  start();
  std::atomic<bool> hanging{true};
  std::atomic<int> asked{0};
  pipeline->on_status = [&] {
    ++asked;
    hanging.wait(true);
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
  hanging.notify_all();
  EXPECT_EQ(scraper.receive().status, 200);
}

TEST_F(HttpServer, AnswersARequestWhoseHandlerThrowsAndKeepsServing) {
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

TEST_F(HttpServer, BindReservesThePortAndStartAcceptsConnections) {
  auto bound = Server::bind({}, api, registry, *metrics);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_FALSE(RawClient(bound.value()->address()).connected());
  ASSERT_TRUE(bound.value()->start().ok());
  EXPECT_EQ(RawClient(bound.value()->address()).exchange(get("/v2/health/live")).status, 200);
  const auto unused = Server::bind({}, api, registry, *metrics);  // is destroyed without having been started
  EXPECT_TRUE(unused.ok());
}

TEST_F(HttpServer, ListensOnIpv6IfTheMachineHasIt) {
  ServerOptions options;
  options.listen = {{HostPort{"::1", 0}}};
  const auto opened = Server::open(options, api, registry, *metrics);
  if (!opened.ok()) GTEST_SKIP() << opened.error().message();
  EXPECT_TRUE(opened.value()->address().starts_with("[::1]:"));
}

TEST_F(HttpServer, AnswersAcceptedRequestsAndRefusesNewRequestsWhileDraining) {
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

TEST_F(HttpServer, ServesButIsNotReadyAfterAnnouncingShutdown) {
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

TEST_F(HttpServer, StopAnswers503ToRequestsThatOutlastItsTimeLimit) {
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
}  // namespace millrace::server::http::test_http_connections
