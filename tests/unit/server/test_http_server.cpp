// Tests the server's answers over real sockets, with a pipeline without cards.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <future>
#include <thread>
#include <vector>

#include "http_server_fixture.hpp"
#include "runtime/base/log.hpp"
#include "server/http/connection/response_head.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::http::test_http_server {
namespace {

/// Returns the head of an answer without the header Date, which differs in every run.
std::string without_date(const Answer& answer) {
  std::string head = answer.head;
  const auto begin = head.find("Date: ");
  if (begin != std::string::npos) head.erase(begin, head.find("\r\n", begin) + 2 - begin);
  return head;
}

TEST(DateHeader, HasTheFormatOfRfc9110) {
  EXPECT_EQ(imf_fixdate(784'111'777), "Sun, 06 Nov 1994 08:49:37 GMT");  // from RFC 9110, 5.6.7
  EXPECT_EQ(imf_fixdate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(imf_fixdate(951'782'399), "Mon, 28 Feb 2000 23:59:59 GMT");
  EXPECT_EQ(imf_fixdate(951'782'400), "Tue, 29 Feb 2000 00:00:00 GMT");
  EXPECT_EQ(imf_fixdate(4'102'444'799), "Thu, 31 Dec 2099 23:59:59 GMT");
}

TEST_F(HttpServer, SendsADateHeaderWithEveryAnswer) {
  start();
  for (const std::string& request :
       {post(kInferTarget, kJsonInput), post(kInferTarget, "{"), get("/nothing"), get("/metrics"),
        get("/v2/health/ready"), std::string("not HTTP\r\n\r\n")}) {
    const std::time_t before = std::time(nullptr);
    const Answer answer = client().exchange(request);
    const std::time_t after = std::time(nullptr);
    ASSERT_EQ(answer.headers.count("date"), 1U) << answer.head;
    std::tm read{};
    const char* end = ::strptime(answer.headers.at("date").c_str(), "%a, %d %b %Y %H:%M:%S GMT", &read);
    ASSERT_TRUE(end != nullptr && *end == '\0') << answer.head;
    EXPECT_GE(::timegm(&read), before);
    EXPECT_LE(::timegm(&read), after);
  }
}

TEST_F(HttpServer, AnswersAJsonInferenceWithKeysInTheProtocolsOrder) {
  start();
  const Answer answer = client().exchange(post(kInferTarget, kJsonInput));
  EXPECT_EQ(without_date(answer), "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
                                      std::to_string(answer.body.size()) + "\r\n\r\n");
  EXPECT_EQ(answer.body, R"({"model_name":"small","model_version":"1","outputs":[)"
                         R"({"name":"y","datatype":"FP32","shape":[1,4],"data":[1.5,-2,0.1,300]}]})");
}

TEST_F(HttpServer, AnswersABinaryInferenceOfTritonsPythonClient) {
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
  EXPECT_EQ(without_date(answer),
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: " +
                std::to_string(expected.size() + 16) +
                "\r\nInference-Header-Content-Length: " + std::to_string(expected.size()) + "\r\n\r\n");
  EXPECT_EQ(answer.body, expected + tensor);
}

TEST_F(HttpServer, CountsRefusedRequestsApartFromFailedFrames) {
  start();
  pipeline->on_submit = [] { return Status(Error(ErrorCode::kUnavailable, "card0 is lost")); };
  RawClient to = client();
  const auto status = [&] { return to.exchange(get("/v2/millrace/status")).body; };
  EXPECT_NE(status().find(R"("failed":0,"refused":0,)"), std::string::npos) << status();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 503);
  EXPECT_EQ(to.exchange(post(kInferTarget, "{}")).status, 400);
  EXPECT_NE(status().find(R"("failed":0,"refused":4,)"), std::string::npos) << status();
  const std::string page = to.exchange(get("/metrics")).body;
  EXPECT_NE(page.find(R"(millrace_requests_refused_total{model="small",transport="http",version="1"} 4)"),
            std::string::npos)
      << page;
}

TEST_F(HttpServer, AnswersARawTensorInBinary) {
  start();
  const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
  const Answer answer =
      client().exchange(post(kInferTarget, tensor, "Inference-Header-Content-Length: 0\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::size_t json = std::stoul(answer.headers.at("inference-header-content-length"));
  EXPECT_EQ(answer.body.substr(json), tensor);
}

TEST_F(HttpServer, RefusesASecondInferenceHeaderContentLength) {
  start();
  RawClient to = client();
  const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
  const std::string one = "Inference-Header-Content-Length: 0\r\n";
  for (const std::string& other : {one, std::string("inference-header-content-length: 16\r\n")}) {
    const Answer answer = to.exchange(post(kInferTarget, tensor, one + "X-Between: 1\r\n" + other));
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_NE(answer.body.find("more than once"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(to.exchange(post(kInferTarget, tensor, one)).status, 200);
}

TEST_F(HttpServer, AcceptsChunkedRequestsAndAFormContentType) {
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

TEST_F(HttpServer, Sends100ContinueOnRequest) {
  start();
  RawClient to = client();
  to.send("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: " +
          std::to_string(kJsonInput.size()) + "\r\n\r\n");
  EXPECT_EQ(to.receive().head, "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(to.exchange(kJsonInput).status, 200);
}

TEST_F(HttpServer, AnswersTheRoutesAboutTheServerAndTheModel) {
  start();
  RawClient to = client();
  const std::pair<const char*, const char*>
      expected
          [] =
              {
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
                   R"({"schema":1,"models":[{"name":"small","version":"1","state":"READY","digest":"d1g35t","ready":true,"replicas":1,"replicas_ready":1,"in_flight":0,"queued":0,"slots":2,"queue_capacity":4,"epoch":0,"completed":0,"failed":0,"refused":0,"recoveries":0,"recovery_seconds":0E0,"bring_up_seconds":0E0,"latency_us":{"frames":0,"p50":null,"p99":null},"cards":[{"endpoint":"card0","card":"fpga0","image":"image0","replica":0,"state":"up","answers":true,"restarts":0,"programmed":1,"resets":{"unit":0,"shell":0,"device":0},"frames":0,"busy_seconds":5E-1,"busy_ratio":0E0,"temperature_celsius":null,"power_watts":null}],"links":[{"channel":"channel0","producer":"fpga0","consumer":"fpga1","replica":0,"up":true,"packets":1,"bytes":2,"stalls":3,"state":"","repeats":0,"damaged":0,"dropped":0,"errors":0}]}]})"},
                  {"/v2/millrace/partitions", R"({"schema":1,"models":[{"name":"small","version":"1","state":"READY","partitions":[{"name":"part0","kind":"dataflow","endpoint":"card0","nodes":["conv"],"multiply_accumulates":0,"card":"fpga0","image":"image0","state":"up","frames":0,"busy_ratio":0E0,"cards":[{"card":"fpga0","image":"image0","state":"up","frames":0,"busy_ratio":0E0,"replica":0}]}]}]})"},
                  {"/v2/millrace/deployment",
                   R"({"schema":1,"models":[{"name":"small","version":"1","state":"READY","digest":"d1g35t","generator":"","endpoints":[{"name":"host","host":true,"device":"","image":""},{"name":"card0","host":false,"device":"ku060","image":"image0"}],"images":[],"partitions":[{"name":"part0","kind":"dataflow","endpoint":"card0","image":"image0","nodes":["conv"],"program_digest":"","multiply_accumulates":0,"inputs":[],"outputs":[]}],"channels":[]}]})"},
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

TEST_F(HttpServer, CountsInferencesInTritonsStatistics) {
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

TEST_F(HttpServer, ReportsTracesAndLatencies) {
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

TEST_F(HttpServer, ReportsRecentFailuresAndLogWarnings) {
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

TEST_F(HttpServer, AnswersAWrongRequestWithTheDocumentedStatusAndKeepsTheConnection) {
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
      {get("/v2/systemsharedmemory/status"), 501, "shared memory"},
      {post("/v2/cudasharedmemory/region/r/register", "{}"), 501, "shared memory"},
      {post("/v2/models/small/generate", "{}"), 501, "generation"},
      {get("/v2/models/none/versions/1/generate_stream"), 501, "generation"},
      {get(kInferTarget), 405, "only POST"},
      {post("/v2/health/live", ""), 405, "only GET"},
      {post("/metrics", ""), 405, "only GET"},
      {"DELETE /v2 HTTP/1.1\r\nHost: t\r\n\r\n", 405, "only GET"},
      {post(kInferTarget, "not json"), 400, "not well-formed JSON"},
      {post(kInferTarget, ""), 400, "not well-formed JSON"},
      {post(kInferTarget, kJsonInput, "Content-Encoding: br\r\n"), 501, "Content-Encoding 'br'"},
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
      EXPECT_EQ(answer.headers.at("allow"), one.says == "only GET" ? "GET, HEAD" : "POST");
    }
  }
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200);
}

TEST_F(HttpServer, AnswersHeadRequestsWithoutABody) {
  ServerOptions options;
  options.max_body_bytes = 100;
  start(options);
  RawClient to = client();
  const auto head = [&](const std::string& target) {
    to.send("HEAD " + target + " HTTP/1.1\r\nHost: t\r\n\r\n");
    return to.receive_head().value_or(Answer{});
  };
  for (const std::string target : {"/v2/health/live", "/v2/models/small", "/metrics", "/"}) {
    EXPECT_EQ(head(target).status, 200) << target;
    EXPECT_EQ(to.exchange(get("/v2/health/live")).body, R"({"live":true})") << target;
  }
  EXPECT_EQ(head("/v2/health/live").headers.at("content-length"), "13");
  EXPECT_EQ(head(kInferTarget).status, 405);
  EXPECT_EQ(head("/nowhere").status, 404);
  to.send("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n");
  const Answer refused = to.receive();
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body, "");
}

TEST_F(HttpServer, AnswersContainTheRequestIdOfTheLog) {
  start();
  RawClient to = client();
  EXPECT_EQ(to.exchange(get("/nowhere", "X-Request-Id: my-id.7\r\n")).headers.at("x-request-id"), "my-id.7");
  const std::string ours = to.exchange(get("/nowhere")).headers.at("x-request-id");
  EXPECT_NE(to.exchange(get("/nowhere")).headers.at("x-request-id"), ours) << "each its own";
  for (const std::string& bad : {std::string(200, 'a'), std::string("two words"), std::string("a\"b")})
    EXPECT_NE(to.exchange(get("/nowhere", "X-Request-Id: " + bad + "\r\n")).headers.at("x-request-id"), bad);
  EXPECT_EQ(to.exchange(get("/v2")).headers.count("x-request-id"), 0U);
  EXPECT_EQ(to.exchange(get("/v2", "X-Request-Id: my-id.8\r\n")).headers.at("x-request-id"), "my-id.8");
  EXPECT_EQ(to.exchange(get("/v2", "X-Request-Id: two words\r\n")).headers.count("x-request-id"), 0U);
}

TEST_F(HttpServer, MapsPipelineErrorsToStatusCodes) {
  start();
  RawClient to = client();
  struct Case {
    ErrorCode code;
    int status;
    bool retry;
  };
  const Case cases[] = {
      {ErrorCode::kResourceExhausted, 429, true}, {ErrorCode::kUnavailable, 503, true},
      {ErrorCode::kDeadlineExceeded, 504, false}, {ErrorCode::kInternal, 500, false},
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

TEST_F(HttpServer, RetryAfterIsThePipelinesEstimateInWholeSeconds) {
  start();
  RawClient to = client();
  using std::chrono::milliseconds;
  const std::pair<milliseconds, const char*> cases[] = {
      {milliseconds(0), "1"},     {milliseconds(1'000), "1"},    {milliseconds(1'001), "2"},
      {milliseconds(4'100), "5"}, {std::chrono::hours(1), "60"}, {milliseconds(-5), "1"},
  };
  for (const auto& [wait, text] : cases) {
    pipeline->retry = wait;
    for (const ErrorCode code : {ErrorCode::kResourceExhausted, ErrorCode::kUnavailable}) {
      pipeline->on_submit = [&] { return Status(Error(code, "because")); };
      EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).headers.at("retry-after"), text);
      pipeline->on_submit = [] { return Status(); };
      pipeline->hold();
      to.send(post(kInferTarget, kJsonInput));
      ASSERT_TRUE(pipeline->wait_for_queued(1));
      pipeline->fail_waiting(Error(code, "later"));
      EXPECT_EQ(to.receive().headers.at("retry-after"), text);
      pipeline->release();
    }
    pipeline->set_ready(false);
    EXPECT_EQ(to.exchange(get("/v2/health/ready")).headers.at("retry-after"), text);
    EXPECT_EQ(to.exchange(get("/v2/models/small/ready")).headers.at("retry-after"), text);
    pipeline->set_ready(true);
  }
}

TEST_F(HttpServer, Answers429WhenTheQueueIsFull) {
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

TEST_F(HttpServer, Answers504WhenATimeoutPassesInTheQueue) {
  start();
  pipeline->hold();
  RawClient to = client();
  to.send(post(kInferTarget, R"({"parameters":{"timeout":1000},)" + kJsonInput.substr(1)));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(5ms);  // longer than the timeout of 1 ms
  pipeline->release();
  const Answer answer = to.receive();
  EXPECT_EQ(answer.status, 504);
  EXPECT_NE(answer.body.find("deadline"), std::string::npos);
  for (const auto& line : log::recent())
    EXPECT_EQ(line.message.find("deadline"), std::string::npos) << "a client's own deadline is no warning";
}

TEST_F(HttpServer, IsLiveButNotReadyWhileACardIsLost) {
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

TEST_F(HttpServer, HeartbeatFailsWhileAnIoThreadHangs) {
  ServerOptions options;
  options.io_threads = 3;
  start(options);
  const auto beats = [&] { return tests::wait_until([&] { return server->beat(); }); };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(beats());
  std::promise<void> hangs, go;
  pipeline->on_submit = [&] {
    hangs.set_value();
    go.get_future().wait();
    return Status();
  };
  RawClient asking = client();
  asking.send(post(kInferTarget, kJsonInput));
  hangs.get_future().wait();
  EXPECT_TRUE(beats()) << "of the time before";
  std::this_thread::sleep_for(50ms);  // meanwhile the threads that do not hang answer
  EXPECT_FALSE(server->beat());
  EXPECT_FALSE(server->beat()) << "the hanging thread has not answered the first call yet";
  go.set_value();
  EXPECT_EQ(asking.receive().status, 200);
  EXPECT_TRUE(beats());
}

}  // namespace
}  // namespace millrace::server::http::test_http_server
