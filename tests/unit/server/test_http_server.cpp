// The server over real sockets, with a pipeline that has no cards.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "fake_pipeline.hpp"
#include "raw_client.hpp"
#include "runtime/base/log.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {
namespace {

using namespace std::chrono_literals;
using test::Answer;
using test::FakePipeline;
using test::get;
using test::post;
using test::RawClient;

const std::string kInferTarget = "/v2/models/small/infer";
const std::string kJsonInput =
    R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","data":[1.5,-2,0.1,3e2]}]})";

class HttpServer : public testing::Test {
 protected:
  void start(ServerOptions options = {}) {
    pipeline = std::make_shared<FakePipeline>();
    ASSERT_TRUE(
        registry
            .publish(std::make_shared<models::Model>("small", "1", pipeline, metrics->model("small", "1")))
            .ok());
    metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
    auto opened = Server::open(options, api, registry, *metrics);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    server = std::move(opened).value();
  }
  RawClient client() { return RawClient(server->address()); }

  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("9.8.7");
  models::Registry registry;
  Api api{registry, *metrics, ApiOptions{"9.8.7", 60'000ms}};
  std::shared_ptr<FakePipeline> pipeline;
  std::unique_ptr<Server> server;
};

// Transcripts.
// ---------------------------------------------------------------------------------------------------------

TEST_F(HttpServer, answers_a_json_inference_with_the_keys_in_the_protocols_order) {
  start();
  const Answer answer = client().exchange(post(kInferTarget, kJsonInput));
  EXPECT_EQ(answer.head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                             std::to_string(answer.body.size()) + "\r\n\r\n");
  EXPECT_EQ(answer.body, R"({"model_name":"small","model_version":"1","outputs":[)"
                         R"({"name":"y","datatype":"FP32","shape":[1,4],"data":[1.5,-2,0.1,300]}]})");
}

TEST_F(HttpServer, answers_a_binary_inference_as_tritons_python_client_sends_it) {
  start();
  const std::string json =
      R"({"id":"req-7","inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","parameters":{"binary_data_size":16}}],)"
      R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
  const Answer answer = client().exchange(
      "POST /v2/models/small/versions/1/infer HTTP/1.1\r\nHost: localhost:8000\r\nUser-Agent: "
      "geventhttpclient-2.0.2\r\n"
      "Content-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
      std::to_string(json.size()) + "\r\nContent-Length: " + std::to_string(json.size() + 16) + "\r\n\r\n" +
      json + tensor);
  const std::string expected =
      R"({"id":"req-7","model_name":"small","model_version":"1","outputs":[)"
      R"({"name":"y","datatype":"FP32","shape":[1,4],"parameters":{"binary_data_size":16}}]})";
  EXPECT_EQ(answer.head, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: " +
                             std::to_string(expected.size() + 16) + "\r\nInference-Header-Content-Length: " +
                             std::to_string(expected.size()) + "\r\n\r\n");
  EXPECT_EQ(answer.body, expected + tensor);
}

TEST_F(HttpServer, takes_a_raw_tensor_and_answers_in_binary) {
  start();
  const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
  const Answer answer =
      client().exchange(post(kInferTarget, tensor, "Inference-Header-Content-Length: 0\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::size_t json = std::stoul(answer.headers.at("inference-header-content-length"));
  EXPECT_EQ(answer.body.substr(json), tensor);
}

TEST_F(HttpServer, takes_a_chunked_request_and_a_form_content_type) {
  start();
  const Answer answer =
      client().exchange("POST " + kInferTarget +
                        " HTTP/1.1\r\nHost: t\r\nContent-Type: "
                        "application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "10\r\n" +
                        kJsonInput.substr(0, 16) + "\r\n" +
                        [] {
                          char length[16];
                          std::snprintf(length, sizeof length, "%zx", kJsonInput.size() - 16);
                          return std::string(length);
                        }() +
                        "\r\n" + kJsonInput.substr(16) + "\r\n0\r\n\r\n");
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(HttpServer, sends_100_continue_to_a_client_that_waits_for_it) {
  start();
  RawClient to = client();
  to.send("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: " +
          std::to_string(kJsonInput.size()) + "\r\n\r\n");
  EXPECT_EQ(to.receive().head, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(to.exchange(kJsonInput).status, 200);
}

TEST_F(HttpServer, answers_the_routes_about_the_server_and_the_model) {
  start();
  RawClient to = client();
  const std::pair<const char*, const char*> expected[] = {
      {"/v2",
       R"({"name":"millrace","version":"9.8.7","extensions":["classification","model_configuration","binary_tensor_data","statistics"]})"},
      {"/v2/health/live", R"({"live":true})"},
      {"/v2/health/ready?x=y", R"({"ready":true})"},
      {"/v2/models/small",
       R"({"name":"small","versions":["1"],"platform":"millrace","inputs":[{"name":"x","datatype":"FP32","shape":[1,2,2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[1,4]}]})"},
      {"/v2/models/small/versions/1/ready", R"({"name":"small","ready":true})"},
      {"/v2/models/small/config",
       R"({"name":"small","platform":"millrace","backend":"millrace","max_batch_size":0,"input":[{"name":"x","data_type":"TYPE_FP32","dims":[1,2,2]}],"output":[{"name":"y","data_type":"TYPE_FP32","dims":[1,4]}]})"},
      {"/v2/millrace/models/small",
       R"({"name":"small","version":"1","digest":"d1g35t","description":"","inputs":[{"name":"x","datatype":"FP32","shape":[1,2,2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[1,4]}],"labels":["zero","one","two","three"],"preprocessing":{"layout":"NCHW","scale":[5E-1],"mean":[1E0]}})"},
      {"/v2/millrace/models/small/versions/1",
       R"({"name":"small","version":"1","digest":"d1g35t","description":"","inputs":[{"name":"x","datatype":"FP32","shape":[1,2,2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[1,4]}],"labels":["zero","one","two","three"],"preprocessing":{"layout":"NCHW","scale":[5E-1],"mean":[1E0]}})"},
      {"/v2/millrace/status",
       R"({"schema":1,"models":[{"name":"small","version":"1","state":"READY","digest":"d1g35t","ready":true,"in_flight":0,"queued":0,"slots":2,"queue_capacity":4,"epoch":0,"completed":0,"failed":0,"latency_us":{"frames":0,"p50":null,"p99":null},"cards":[{"endpoint":"card0","card":"fpga0","image":"image0","state":"up","restarts":0,"programmed":1,"frames":0,"busy_seconds":5E-1,"busy_ratio":0E0,"temperature_celsius":null,"power_watts":null}],"links":[{"channel":"channel0","producer":"fpga0","consumer":"fpga1","up":true,"packets":1,"bytes":2,"stalls":3,"errors":0}]}]})"},
      {"/v2/millrace/partitions",
       R"({"schema":1,"models":[{"name":"small","version":"1","state":"READY","partitions":[{"name":"part0","kind":"dataflow","endpoint":"card0","nodes":["conv"],"multiply_accumulates":0,"card":"fpga0","image":"image0","state":"up","frames":0,"busy_ratio":0E0}]}]})"},
      {"/v2/millrace/deployment", R"({"schema":1,"models":[{"name":"small","version":"1","state":"READY","digest":"d1g35t","generator":"","endpoints":[{"name":"host","host":true,"device":"","image":""},{"name":"card0","host":false,"device":"ku060","image":"image0"}],"images":[],"partitions":[{"name":"part0","kind":"dataflow","endpoint":"card0","image":"image0","nodes":["conv"],"program_digest":"","multiply_accumulates":0,"inputs":[],"outputs":[]}],"channels":[]}]})"},
      {"/v2/millrace/trace",
       R"({"displayTimeUnit":"ns","traceEvents":[{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"small version 1"}}]})"},
  };
  for (const auto& [target, body] : expected) {
    const Answer answer = to.exchange(get(target));
    EXPECT_EQ(answer.status, 200) << target;
    EXPECT_EQ(answer.body, body) << target;
  }
  EXPECT_EQ(to.exchange(post("/v2/repository/index", "")).body,
            R"([{"name":"small","version":"1","state":"READY","reason":""}])");
}

TEST_F(HttpServer, counts_inferences_in_tritons_statistics) {
  start();
  RawClient to = client();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200);
  ASSERT_EQ(to.exchange(post(kInferTarget, "{}")).status, 400);
  const std::string body = to.exchange(get("/v2/models/small/stats")).body;
  EXPECT_NE(body.find(R"("inference_count":3,"execution_count":3)"), std::string::npos) << body;
  EXPECT_NE(body.find(R"("fail":{"count":1,)"), std::string::npos) << body;
  EXPECT_NE(body.find(R"("compute_infer":{"count":3,"ns":9000})"), std::string::npos) << body;
  EXPECT_EQ(to.exchange(get("/v2/models/stats")).body, body);
}

TEST_F(HttpServer, traces_a_frames_way_and_says_how_long_frames_took) {
  start();
  const auto now = runtime::pipeline::Clock::now();
  const auto at = [&](int us) { return now + std::chrono::microseconds(us); };
  pipeline->set_recent(
      {{7, 1, 3, at(0), at(5), at(7), at(20), at(21)}, {8, 0, 3, at(1), at(6), at(9), at(30), at(31)}});
  RawClient to = client();
  const std::string trace = to.exchange(get("/v2/millrace/trace")).body;
  EXPECT_NE(trace.find(R"({"ph":"X","name":"frame 7","cat":"frame","pid":1,"tid":1,"ts":)"),
            std::string::npos)
      << trace;
  EXPECT_NE(trace.find(R"("dur":1.3E1,"args":{"sequence":7,"epoch":3}})"), std::string::npos)
      << "on the cards";
  EXPECT_NE(trace.find(R"("name":"thread_name","pid":1,"tid":1,"args":{"name":"slot 1"})"),
            std::string::npos);
  EXPECT_NE(to.exchange(get("/v2/millrace/status")).body.find(R"("latency_us":{"frames":2,"p50":2.1E1,)"),
            std::string::npos);
}

TEST_F(HttpServer, remembers_what_failed_and_what_the_log_said) {
  start();
  pipeline->on_submit = [] { return Error(ErrorCode::kResourceExhausted, "the queue is \"full\""); };
  log::warning("test", "something \xff odd");
  RawClient to = client();
  ASSERT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 429);
  ASSERT_EQ(to.exchange(post(kInferTarget, "{}")).status, 400);
  const std::string body = to.exchange(get("/v2/millrace/errors")).body;
  EXPECT_NE(
      body.find(R"("from":"request","status":429,"target":"/v2/models/small/infer","message":"the queue is )"
                R"(\"full\""})"),
      std::string::npos)
      << body;
  EXPECT_EQ(body.find(R"("status":400)"), std::string::npos) << "a client's own fault";
  EXPECT_NE(body.find(R"("from":"test","level":"warning","message":"something ? odd"})"), std::string::npos)
      << body;
}

// Status codes.
// --------------------------------------------------------------------------------------------------------

TEST_F(HttpServer, gives_the_status_of_the_table_and_keeps_the_connection) {
  start();
  RawClient to = client();
  struct Case {
    std::string request;
    int status;
    std::string_view says;
  };
  const Case cases[] = {
      {get("/nowhere"), 404, "no such route"},
      {get("/v2/models/none"), 404, "unknown model 'none'"},
      {get("/v2/models/small/versions/2"), 404, "has no version '2'; it has 1"},
      {post("/v2/models/none/infer", kJsonInput), 404, "unknown model 'none'"},
      {get(kInferTarget), 405, "POST only"},
      {post("/v2/health/live", ""), 405, "GET only"},
      {post("/metrics", ""), 405, "GET only"},
      {"DELETE /v2 HTTP/1.1\r\nHost: t\r\n\r\n", 405, "GET only"},
      {post(kInferTarget, "not json"), 400, "not well-formed JSON"},
      {post(kInferTarget, ""), 400, "not well-formed JSON"},
      {post(kInferTarget, kJsonInput, "Content-Encoding: gzip\r\n"), 501, "Content-Encoding 'gzip'"},
      {post("/v2/repository/models/small/load", ""), 501, "fixed at start"},
      {post("/v2/repository/models/small/unload", "{}"), 501, "fixed at start"},
  };
  for (const Case& one : cases) {
    const Answer answer = to.exchange(one.request);
    EXPECT_EQ(answer.status, one.status) << one.request;
    EXPECT_EQ(answer.headers.at("content-type"), "application/json");
    EXPECT_TRUE(answer.body.starts_with(R"({"error":")")) << answer.body;
    EXPECT_NE(answer.body.find(one.says), std::string::npos) << answer.body;
    if (one.status == 405) {
      EXPECT_EQ(answer.headers.at("allow"), one.says.substr(0, one.says.find(' ')));
    }
  }
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200);
}

TEST_F(HttpServer, maps_the_pipelines_refusals_and_failures) {
  start();
  RawClient to = client();
  struct Case {
    ErrorCode code;
    int status;
    bool retry;
  };
  const Case cases[] = {
      {ErrorCode::kResourceExhausted, 429, true}, {ErrorCode::kUnavailable, 503, true},
      {ErrorCode::kDeadlineExceeded, 503, false}, {ErrorCode::kInternal, 500, false},
      {ErrorCode::kInvalidInput, 400, false},
  };
  for (const Case& one : cases) {
    pipeline->on_submit = [&] { return Status(Error(one.code, "because")); };
    const Answer refused = to.exchange(post(kInferTarget, kJsonInput));
    EXPECT_EQ(refused.status, one.status);
    EXPECT_EQ(refused.headers.count("retry-after"), one.retry ? 1U : 0U);
    EXPECT_EQ(refused.body, R"({"error":"because"})");
    pipeline->on_submit = [] { return Status(); };

    pipeline->hold();
    to.send(post(kInferTarget, kJsonInput));
    ASSERT_TRUE(pipeline->wait_for_queued(1));
    pipeline->fail_waiting(Error(one.code, "later"));
    const Answer failed = to.receive();
    pipeline->release();
    EXPECT_EQ(failed.status, one.status);
    EXPECT_EQ(failed.body, R"({"error":"later"})");
  }
}

TEST_F(HttpServer, answers_429_when_the_queue_is_full) {
  start();
  pipeline->hold();
  std::vector<RawClient> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(client());
    waiting.back().send(post(kInferTarget, kJsonInput));
  }
  ASSERT_TRUE(pipeline->wait_for_queued(4));
  const Answer answer = client().exchange(post(kInferTarget, kJsonInput));
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  pipeline->release();
  for (RawClient& one : waiting) EXPECT_EQ(one.receive().status, 200);
}

TEST_F(HttpServer, answers_503_when_the_requests_timeout_passes_in_the_queue) {
  start();
  pipeline->hold();
  RawClient to = client();
  to.send(post(kInferTarget, R"({"parameters":{"timeout":1000},)" + kJsonInput.substr(1)));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(5ms);
  pipeline->release();
  const Answer answer = to.receive();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("deadline"), std::string::npos);
}

TEST_F(HttpServer, says_not_ready_while_a_card_is_lost_and_stays_live) {
  start();
  RawClient to = client();
  pipeline->set_ready(false);
  EXPECT_EQ(to.exchange(get("/v2/health/live")).status, 200);
  const Answer ready = to.exchange(get("/v2/health/ready"));
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, R"({"ready":false,"error":"a card of model 'small' is not up"})");
  EXPECT_EQ(to.exchange(get("/v2/models/small/ready")).status, 503);
  pipeline->set_ready(true);
  EXPECT_EQ(to.exchange(get("/v2/health/ready")).status, 200);
}

// Connections.
// ---------------------------------------------------------------------------------------------------------

TEST_F(HttpServer, answers_pipelined_requests_in_order) {
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

TEST_F(HttpServer, takes_a_request_that_comes_byte_by_byte) {
  start();
  RawClient to = client();
  for (const char byte : post(kInferTarget, kJsonInput)) ASSERT_TRUE(to.send(std::string_view(&byte, 1)));
  EXPECT_EQ(to.receive().status, 200);
}

TEST_F(HttpServer, closes_after_an_answer_where_the_client_asks_for_it) {
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

TEST_F(HttpServer, gives_each_of_many_clients_its_own_answer) {
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

TEST_F(HttpServer, takes_a_queued_request_back_when_its_client_goes_away) {
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

TEST_F(HttpServer, keeps_a_queued_request_whose_client_already_sends_the_next) {
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
// --------------------------------------------------------------------------------------------------------------

TEST_F(HttpServer, refuses_a_body_over_the_limit_before_and_while_it_comes) {
  ServerOptions options;
  options.max_body_bytes = 1000;
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

TEST_F(HttpServer, refuses_a_header_over_the_limit_and_what_is_not_http) {
  ServerOptions options;
  options.max_header_bytes = 1000;
  start(options);
  RawClient long_header = client();
  EXPECT_EQ(long_header.exchange("GET /v2 HTTP/1.1\r\nX: " + std::string(2000, 'a') + "\r\n\r\n").status,
            431);
  for (const char* nonsense : {"hello\r\n\r\n", "GET /v2 HTTP/9.9\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
                               "POST /v2 HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                               "POST /v2 HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                               "POST /v2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    RawClient to = client();
    const Answer answer = to.exchange(nonsense);
    EXPECT_EQ(answer.status, 400) << nonsense;
    EXPECT_TRUE(to.closed_by_server()) << nonsense;
  }
  EXPECT_EQ(client().exchange(get("/v2")).status, 200);
}

TEST_F(HttpServer, closes_a_connection_on_which_nothing_comes) {
  ServerOptions options;
  options.idle_timeout = 100ms;
  start(options);
  RawClient idle = client();
  EXPECT_TRUE(idle.closed_by_server());
}

TEST_F(HttpServer, cuts_off_a_header_that_comes_slowly) {
  ServerOptions options;
  options.header_timeout = 100ms;
  start(options);
  RawClient header = client();
  EXPECT_EQ(header.exchange("GET /v2 HT").status, 408);
  EXPECT_TRUE(header.closed_by_server());
}

TEST_F(HttpServer, cuts_off_a_body_that_comes_slowly) {
  ServerOptions options;
  options.body_timeout = 100ms;
  start(options);
  RawClient body = client();
  EXPECT_EQ(
      body.exchange("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n123").status,
      408);
  EXPECT_TRUE(body.closed_by_server());
}

TEST_F(HttpServer, a_deadline_on_reading_does_not_cut_off_a_long_inference) {
  ServerOptions options;
  options.idle_timeout = options.header_timeout = options.body_timeout = options.write_timeout = 100ms;
  start(options);
  pipeline->hold();
  RawClient to = client();
  to.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(300ms);
  pipeline->release();
  EXPECT_EQ(to.receive().status, 200);
}

TEST_F(HttpServer, refuses_connections_over_the_limit_and_takes_new_ones_when_some_close) {
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

TEST_F(HttpServer, bodies_of_all_connections_together_are_bounded) {
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

TEST_F(HttpServer, health_is_answered_while_a_card_that_hangs_keeps_a_scrape_waiting) {
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

TEST_F(HttpServer, an_error_about_a_name_that_is_not_utf8_is_still_json) {
  start();
  const Answer answer = client().exchange(get("/v2/models/%ff%fe"));
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.body.find("'\xEF\xBF\xBD\xEF\xBF\xBD'"), std::string::npos)
      << testing::PrintToString(answer.body);
}

// Start and stop.
// ------------------------------------------------------------------------------------------------------

TEST_F(HttpServer, says_so_when_the_port_is_in_use) {
  start();
  ServerOptions options;
  options.listen = parse_host_port(server->address(), "--http").value();
  const auto second = Server::open(options, api, registry, *metrics);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kEnvironment);
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
  EXPECT_EQ(client().exchange(post(kInferTarget, kJsonInput)).status, 200) << "the first goes on";
}

TEST_F(HttpServer, holds_its_port_from_bind_on_and_takes_clients_from_start_on) {
  auto bound = Server::bind({}, api, registry, *metrics);
  ASSERT_TRUE(bound.ok()) << bound.error().message();
  EXPECT_FALSE(RawClient(bound.value()->address()).connected());
  ASSERT_TRUE(bound.value()->start().ok());
  EXPECT_EQ(RawClient(bound.value()->address()).exchange(get("/v2/health/live")).status, 200);
  const auto unused = Server::bind({}, api, registry, *metrics);  // ends without having started
  EXPECT_TRUE(unused.ok());
}

TEST_F(HttpServer, listens_on_ipv6_where_the_machine_has_it) {
  ServerOptions options;
  options.listen = {"::1", 0};
  const auto opened = Server::open(options, api, registry, *metrics);
  if (!opened.ok()) GTEST_SKIP() << opened.error().message();
  EXPECT_TRUE(opened.value()->address().starts_with("[::1]:"));
}

TEST_F(HttpServer, drains_accepted_requests_and_refuses_new_ones) {
  start();
  pipeline->hold();
  RawClient accepted = client();
  accepted.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  server->begin_drain();
  EXPECT_FALSE(server->idle());
  RawClient late = client();
  EXPECT_EQ(late.exchange(post(kInferTarget, kJsonInput)).status, 503);
  EXPECT_EQ(late.exchange(get("/v2/health/live")).status, 200);
  EXPECT_EQ(late.exchange(get("/v2/health/ready")).status, 503);
  std::jthread stopping([this] { server->stop(20'000ms); });
  pipeline->release();
  EXPECT_EQ(accepted.receive().status, 200);
  stopping.join();
  EXPECT_TRUE(accepted.closed_by_server());
  EXPECT_TRUE(late.closed_by_server());
  EXPECT_FALSE(client().connected());
}

TEST_F(HttpServer, stop_with_a_bound_that_passes_answers_503_to_what_still_waits) {
  start();
  pipeline->hold();
  RawClient stuck = client();
  stuck.send(post(kInferTarget, kJsonInput));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  server->stop(10ms);
  EXPECT_EQ(stuck.receive().status, 503);
}

TEST_F(HttpServer, stops_under_load_with_every_request_answered_or_its_connection_closed) {
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

TEST(HostPort, takes_what_names_an_address_and_refuses_the_rest) {
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
