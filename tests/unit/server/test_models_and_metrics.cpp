// Tests the registry of served models, and the metrics.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <thread>
#include <vector>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/tools.hpp"

namespace millrace::server::models::test_models_and_metrics {
namespace {

using test::FakePipeline;
using namespace std::chrono_literals;
constexpr auto kHttp = metrics::Transport::kHttp, kUdp = metrics::Transport::kUdp;

class RegistryAndMetrics : public testing::Test {
 protected:
  std::shared_ptr<Model> make(const std::string& name, const std::string& version) {
    fake = std::make_shared<FakePipeline>();
    return std::make_shared<Model>(name, version, fake, metrics->model(name, version));
  }
  std::shared_ptr<FakePipeline> fake;  // the pipeline of the model that make() made last
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("1.2.3");
  Registry registry;
};

TEST_F(RegistryAndMetrics, FindsTheMostRecentlyPublishedVersion) {
  const auto one = make("m", "1"), two = make("m", "2"), other = make("n", "1");
  for (const auto& model : {one, two, other}) ASSERT_TRUE(registry.publish(model).ok());
  const auto now = registry.snapshot();
  EXPECT_EQ(now->find("m", ""), two);
  EXPECT_EQ(now->find("m", "2"), two);
  EXPECT_EQ(now->find("m", "1"), nullptr) << "replaced by version 2";
  EXPECT_EQ(now->find("o", ""), nullptr);
  EXPECT_EQ(now->all(), (std::vector{two, other}));
}

TEST_F(RegistryAndMetrics, ARefreshedViewFindsNewModelsAndAModelInUseStaysAliveAfterItsWithdrawal) {
  Registry::View view;
  EXPECT_TRUE(registry.refresh(view).empty());
  ASSERT_TRUE(registry.publish(make("m", "1")).ok());
  std::shared_ptr<Model> held = registry.refresh(view).find("m", "");
  ASSERT_NE(held, nullptr);
  registry.withdraw(*held);
  EXPECT_TRUE(registry.refresh(view).empty());
  EXPECT_EQ(held.use_count(), 1) << "nothing else keeps it";
  EXPECT_EQ(held->info().name, "small");
}

TEST_F(RegistryAndMetrics, WithdrawingAReplacedVersionKeepsTheServingVersion) {
  const auto one = make("m", "1"), two = make("m", "2");
  ASSERT_TRUE(registry.publish(one).ok());
  ASSERT_TRUE(registry.publish(two).ok());
  registry.withdraw(*one);
  EXPECT_EQ(registry.snapshot()->find("m", ""), two);
  registry.withdraw(*two);
  EXPECT_TRUE(registry.snapshot()->empty());
}

TEST_F(RegistryAndMetrics, RefusesAModelWithoutAName) {
  EXPECT_EQ(registry.publish(make("", "1")).error().code(), ErrorCode::kInvalidInput);
}

TEST_F(RegistryAndMetrics, ReadersSeeConsistentSnapshotsWhileModelsChange) {
  ASSERT_TRUE(registry.publish(make("m", "1")).ok());
  std::atomic<bool> done{false};
  std::jthread reader([&] {
    Registry::View view;
    while (!done) {
      const auto model = registry.refresh(view).find("m", "");
      ASSERT_NE(model, nullptr);
      ASSERT_EQ(model->name(), "m");
    }
  });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(registry.publish(make("m", std::to_string(i % 3))).ok());
  done = true;
}

TEST_F(RegistryAndMetrics, StoppingTheRegistryStopsEveryPipelineAndMakesModelsUnavailable) {
  ASSERT_TRUE(registry.publish(make("m", "1")).ok());
  registry.stop(0ms);
  const auto model = registry.snapshot()->find("m", "");
  EXPECT_EQ(to_string(model->state()), "UNAVAILABLE");
  runtime::pipeline::Frame frame;
  EXPECT_EQ(model->pipeline().submit(frame).error().code(), ErrorCode::kUnavailable);
}

TEST_F(RegistryAndMetrics, StatisticsCountSuccessesFailuresAndRefusals) {
  const auto model = make("m", "1");
  for (int i = 0; i < 2; ++i) {
    model->begun();
    model->succeeded(kHttp, {10us, 1us, 2us, 3us, 4us});
  }
  model->begun();
  model->failed(kHttp, ErrorCode::kUnavailable, 7us);
  model->refused(kHttp, ErrorCode::kInvalidInput);
  const Statistics now = model->statistics();
  EXPECT_EQ(now.successes, 2U);
  EXPECT_EQ(now.succeeded.request, 20us);
  EXPECT_EQ(now.succeeded.queue, 2us);
  EXPECT_EQ(now.succeeded.input, 4us);
  EXPECT_EQ(now.succeeded.compute, 6us);
  EXPECT_EQ(now.succeeded.output, 8us);
  EXPECT_EQ(now.failures, 2U);
  EXPECT_EQ(now.failed, 7us);
  EXPECT_GT(now.last_inference_unix_ms, 1'600'000'000'000U);
}

TEST_F(RegistryAndMetrics, CountsRequestsThatNoPipelineAcceptedAsRefused) {
  const auto model = make("m", "1");
  model->begun();
  model->failed(kHttp, ErrorCode::kUnavailable, 7us);
  EXPECT_EQ(model->statistics().refused, 0U);
  model->begun();
  model->not_taken(kHttp, ErrorCode::kUnavailable);
  model->refused(kHttp, ErrorCode::kInvalidInput);
  EXPECT_EQ(model->statistics().refused, 2U);
  EXPECT_EQ(model->statistics().failures, 3U);
  const std::string page = metrics->serialise();
  for (
      const char* line :
      {R"(millrace_requests_refused_total{model="m",transport="http",version="1"} 2)",
       R"(millrace_requests_in_flight{model="m",version="1"} 0)",
       R"(millrace_requests_total{model="m",outcome="failure",reason="unavailable",transport="http",version="1"} 2)"})
    EXPECT_NE(page.find(std::string("\n") + line + "\n"), std::string::npos) << line;
}

std::string line_of(const std::string& page, const std::string& start) {
  const auto at = page.find("\n" + start);
  if (at == std::string::npos) return "";
  return page.substr(at + 1, page.find('\n', at + 1) - at - 1);
}

TEST_F(RegistryAndMetrics, MetricsPageHasEveryMetricSeries) {
  const auto model = make("m", "1");
  ASSERT_TRUE(registry.publish(model).ok());
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  model->begun();
  model->succeeded(kHttp, {10us, 1us, 2us, 3us, 4us});
  model->begun();
  model->refused(kHttp, ErrorCode::kResourceExhausted);
  metrics->http_answered(200);
  metrics->http_answered(200);
  metrics->connection_opened();
  const std::string page = "\n" + metrics->serialise();
  const std::string labels = R"(model="m",version="1")";
  EXPECT_EQ(
      line_of(
          page,
          R"(millrace_requests_total{model="m",outcome="success",reason="none",transport="http",version="1"})"),
      R"(millrace_requests_total{model="m",outcome="success",reason="none",transport="http",version="1"} 1)");
  EXPECT_EQ(
      line_of(page, R"(millrace_requests_total{model="m",outcome="failure",reason="resource_exhausted")")
          .back(),
      '1');
  EXPECT_EQ(line_of(page, "millrace_requests_in_flight{" + labels + "}").back(), '1');
  const std::string over_http = R"(model="m",transport="http",version="1")";
  EXPECT_EQ(line_of(page, "millrace_request_seconds_bucket{" + over_http + ",le=\"2e-05\"}").back(), '1');
  EXPECT_EQ(line_of(page, "millrace_request_seconds_count{" + over_http + "}").back(), '1');
  EXPECT_EQ(page.find("udp"), std::string::npos) << "no series of what does not listen";
  for (const char* part : {"queue", "input", "compute", "output"})
    EXPECT_EQ(line_of(page, "millrace_" + std::string(part) + "_seconds_count{" + labels + "}").back(), '1')
        << part;
  EXPECT_EQ(line_of(page, R"(millrace_http_responses_total{code="200"})").back(), '2');
  for (const char* name : {"millrace_queue_depth",
                           "millrace_queue_capacity",
                           "millrace_slots",
                           "millrace_frames_in_flight",
                           "millrace_model_info",
                           "millrace_model_ready",
                           "millrace_card_up",
                           "millrace_card_restarts_total",
                           "millrace_card_frames_total",
                           "millrace_card_busy_seconds_total",
                           "millrace_link_bytes_total",
                           "millrace_link_packets_total",
                           "millrace_link_stalls_total",
                           "millrace_link_up",
                           "millrace_link_errors_total",
                           "millrace_recoveries_total",
                           "millrace_recovery_seconds_total",
                           "millrace_bring_up_seconds",
                           "millrace_partition_frames_total",
                           "millrace_partition_busy_ratio",
                           "millrace_reloads_total",
                           "millrace_reload_seconds_count"})
    EXPECT_NE(line_of(page, std::string(name) + "{"), "") << name;
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
                           "process_max_fds", "process_start_time_seconds", "millrace_http_connections"})
    EXPECT_NE(line_of(page, std::string(name) + " "), "") << name;
  EXPECT_NE(page.find("version=\"1.2.3\""), std::string::npos);
}

TEST_F(RegistryAndMetrics, TheReadmeListsEveryMetricSeries) {
  ASSERT_TRUE(registry.publish(make("m", "1")).ok());
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  metrics->http_answered(200);
  metrics->count("millrace_programmings_total", "Images loaded on a card.", {{"card", "c"}});
  const auto readme = read_text_file(std::filesystem::path(tests::source_dir()) / "server/metrics/README.md");
  ASSERT_TRUE(readme.ok());
  std::istringstream page(metrics->serialise());
  std::size_t names = 0;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("# TYPE millrace_")) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_TRUE(readme->find("`" + name + "`") != std::string::npos ||
                readme->find("`" + name + "{") != std::string::npos)
        << name;
    ++names;
  }
  EXPECT_GT(names, 30U);
}

TEST_F(RegistryAndMetrics, HistogramBoundsGoFrom20MicrosecondsTo10Seconds) {
  const std::vector<double> kBounds = {2e-5, 3e-5, 5e-5, 7e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7e-4,    1e-3, 2e-3,
                                       3e-3, 5e-3, 7e-3, 1e-2, 2e-2, 3e-2, 5e-2, 7e-2, 0.1,     0.2,  0.3,
                                       0.5,  0.7,  1.0,  2.0,  3.0,  5.0,  7.0,  10.0, HUGE_VAL};
  const auto model = make("m", "1");
  for (const std::string series : {"request", "queue", "input", "compute", "output"}) {
    std::istringstream page(metrics->serialise());
    std::vector<double> bounds;
    for (std::string line; std::getline(page, line);)
      if (line.starts_with("millrace_" + series + "_seconds_bucket"))
        bounds.push_back(std::stod(line.substr(line.find("le=\"") + 4)));  // the last bound is "+Inf"
    EXPECT_EQ(bounds, kBounds) << series;
  }
  // Bounds must be printed with few digits. With 16 digits, 7e-5 would be 6.999999999999999e-05.
  const std::string page = metrics->serialise();
  for (const char* bound : {"7e-05", "0.0001", "0.07", "10"})
    EXPECT_NE(page.find(std::string(",le=\"") + bound + "\"} "), std::string::npos) << bound;
}

TEST_F(RegistryAndMetrics, MetricsPagePassesPromtool) {
  ASSERT_TRUE(tests::installed({"promtool"}));
  ASSERT_TRUE(registry.publish(make("m \"x\"\n", "1")).ok());
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  metrics->http_answered(404);
  const TemporaryDirectory directory("millrace_metrics");
  const auto file = directory.path() / "page";
  ASSERT_TRUE(write_file_atomically(file, metrics->serialise()).ok());
  EXPECT_EQ(std::system(("promtool check metrics < " + file.string()).c_str()), 0);
}

TEST_F(RegistryAndMetrics, OnlyACardWithSensorsHasSensorMetrics) {
  ASSERT_TRUE(registry.publish(make("m", "1")).ok());
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  EXPECT_EQ(metrics->serialise().find("temperature"), std::string::npos);
  fake->set_sensors({41.5, std::nullopt});
  const std::string page = "\n" + metrics->serialise();
  EXPECT_TRUE(line_of(page, "millrace_card_temperature_celsius{").ends_with("} 41.5")) << page;
  EXPECT_EQ(page.find("millrace_card_power"), std::string::npos);
}

/// This test needs a fake card, because emulated cards have no sensors and test_monitoring therefore cannot check the
/// sensors' series.
TEST_F(RegistryAndMetrics, ACardWithSensorsHasEveryMetricThatTheHardwareAlertsUse) {
  ASSERT_TRUE(registry.publish(make("m", "1")).ok());
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  fake->set_sensors({41.5, 30});
  const std::string page = "\n" + metrics->serialise();
  const auto alerts =
      read_text_file(std::filesystem::path(tests::source_dir()) / "configs/monitoring/alerts_hardware.yml");
  ASSERT_TRUE(alerts.ok());
  const std::regex name("millrace_[a-z_]+");
  int named = 0;
  for (std::sregex_iterator at(alerts->begin(), alerts->end(), name), end; at != end; ++at, ++named)
    EXPECT_NE(line_of(page, at->str() + "{"), "") << at->str();
  EXPECT_GE(named, 2);
}

TEST_F(RegistryAndMetrics, ReloadsAreCountedByOutcome) {
  metrics->model("m", "1");
  EXPECT_EQ(
      line_of("\n" + metrics->serialise(), R"(millrace_reloads_total{model="m",outcome="failure"})").back(),
      '0')
      << "there from the start, so that the first failure is an increase";
  metrics->reloaded("m", metrics::Metrics::Reload::kFailure, 20ms);
  const std::string page = "\n" + metrics->serialise();
  EXPECT_EQ(line_of(page, R"(millrace_reloads_total{model="m",outcome="failure"})").back(), '1');
  EXPECT_EQ(line_of(page, R"(millrace_reload_seconds_bucket{model="m",le="0.05"})").back(), '1');
  EXPECT_EQ(line_of(page, R"(millrace_reload_seconds_bucket{model="m",le="0.01"})").back(), '0');
}

TEST_F(RegistryAndMetrics, EachTransportHasItsOwnMetricSeriesFromTheStart) {
  metrics = metrics::Metrics::create("1.2.3", metrics::Compatibility::kTriton, {kHttp, kUdp});
  const auto model = make("m", "1");
  const auto count = [&](const std::string& outcome, const std::string& reason,
                         const std::string& transport) {
    const std::string line =
        line_of("\n" + metrics->serialise(), "millrace_requests_total{model=\"m\",outcome=\"" + outcome +
                                                 "\",reason=\"" + reason + "\",transport=\"" + transport +
                                                 "\",version=\"1\"}");
    return line.empty() ? -1 : std::stoi(line.substr(line.rfind(' ')));
  };
  for (const std::string transport : {"http", "udp"}) {
    EXPECT_EQ(count("success", "none", transport), 0);
    EXPECT_EQ(count("failure", "unavailable", transport), 0);
  }
  for (int i = 0; i < 3; ++i) model->begun();
  model->succeeded(kHttp, {10us, 1us, 2us, 3us, 4us});
  model->succeeded(kUdp, {20us, 1us, 2us, 3us, 4us});
  model->failed(kUdp, ErrorCode::kUnavailable, 7us);
  model->refused(kUdp, ErrorCode::kResourceExhausted);
  EXPECT_EQ(count("success", "none", "http"), 1);
  EXPECT_EQ(count("success", "none", "udp"), 1);
  EXPECT_EQ(count("failure", "unavailable", "http"), 0);
  EXPECT_EQ(count("failure", "unavailable", "udp"), 1);
  EXPECT_EQ(count("failure", "resource_exhausted", "udp"), 1);
  const std::string page = "\n" + metrics->serialise();
  const auto last = [&](const std::string& start) { return line_of(page, start).back(); };
  EXPECT_EQ(last(R"(millrace_request_seconds_count{model="m",transport="http",version="1"})"), '1');
  EXPECT_EQ(last(R"(millrace_request_seconds_count{model="m",transport="udp",version="1"})"), '2');
  EXPECT_EQ(last(R"(millrace_requests_in_flight{model="m",version="1"})"), '0');
  EXPECT_EQ(last(R"(nv_inference_request_success{model="m",version="1"})"), '2')
      << "Triton's know no transport";
  EXPECT_EQ(model->statistics().successes, 2U);
}

TEST_F(RegistryAndMetrics, AddsTritonsMetricNamesOnlyIfConfigured) {
  EXPECT_EQ(metrics->serialise().find("nv_"), std::string::npos);
  metrics = metrics::Metrics::create("1.2.3", metrics::Compatibility::kTriton);
  const auto model = make("m", "1");
  ASSERT_TRUE(registry.publish(model).ok());
  metrics->set_sampler([this](metrics::Samples& samples) { registry.sample(samples); });
  model->begun();
  model->succeeded(kHttp, {10us, 1us, 2us, 3us, 4us});
  model->refused(kHttp, ErrorCode::kResourceExhausted);
  model->refused(kHttp, ErrorCode::kInvalidInput);
  model->refused(kHttp, ErrorCode::kNotFound);
  const std::string page = "\n" + metrics->serialise();
  const std::string labels = R"({model="m",version="1"} )";
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"nv_inference_request_success", "1"},
                                                        {"nv_inference_count", "1"},
                                                        {"nv_inference_exec_count", "1"},
                                                        {"nv_inference_request_duration_us", "10"},
                                                        {"nv_inference_queue_duration_us", "1"},
                                                        {"nv_inference_compute_input_duration_us", "2"},
                                                        {"nv_inference_compute_infer_duration_us", "3"},
                                                        {"nv_inference_compute_output_duration_us", "4"},
                                                        {"nv_inference_pending_request_count", "0"}}) {
    const std::string line = line_of(page, name + labels);
    ASSERT_NE(line, "") << name;
    EXPECT_NEAR(std::stod(line.substr(line.rfind(' '))), std::stod(value), 1e-6) << line;
  }
  EXPECT_EQ(line_of(page, R"(nv_inference_request_failure{model="m",version="1",reason="REJECTED"})").back(),
            '1');
  EXPECT_EQ(line_of(page, R"(nv_inference_request_failure{model="m",version="1",reason="OTHER"})").back(),
            '2');
}

TEST(BusyRatios, AverageOverAtLeastTheLastSecond) {
  BusyRatios busy;
  const BusyRatios::Clock::time_point start{};
  EXPECT_EQ(busy.of("a", 5, start), 0);
  EXPECT_EQ(busy.of("a", 5.2, start + 500ms), 0) << "too early to tell";
  EXPECT_DOUBLE_EQ(busy.of("a", 6, start + 2s), 0.5);
  EXPECT_DOUBLE_EQ(busy.of("a", 6.5, start + 2500ms), 0.5) << "still the last window's";
  EXPECT_DOUBLE_EQ(busy.of("a", 1, start + 4s), 0.5) << "loaded again: its counter began anew";
  EXPECT_DOUBLE_EQ(busy.of("a", 9, start + 5s), 1) << "never more than all";
  EXPECT_EQ(busy.of("b", 9, start + 5s), 0);
}

TEST_F(RegistryAndMetrics, CountersContinueWhenAModelIsPublishedAgain) {
  for (int round = 0; round < 2; ++round) {
    const auto model = make("m", "1");
    ASSERT_TRUE(registry.publish(model).ok());
    model->begun();
    model->succeeded(kHttp, {});
    registry.withdraw(*model);
  }
  EXPECT_EQ(
      line_of("\n" + metrics->serialise(), R"(millrace_requests_total{model="m",outcome="success")").back(),
      '2');
}

bool has(const std::unique_ptr<metrics::Metrics>& metrics, const std::string& series) {
  return ("\n" + metrics->serialise()).find("\n" + series) != std::string::npos;
}

TEST_F(RegistryAndMetrics, DropsTheMetricSeriesOfAWithdrawnVersionAfterTheRetentionTime) {
  metrics = metrics::Metrics::create("1.2.3", metrics::Compatibility::kTriton, {kHttp, kUdp}, {0ns, 256});
  const std::string before = metrics->serialise();
  auto request_in_flight = make("m", "1");
  ASSERT_TRUE(registry.publish(request_in_flight).ok());
  request_in_flight->begun();
  registry.withdraw(*request_in_flight);
  EXPECT_TRUE(has(metrics, R"(millrace_requests_in_flight{model="m",version="1"} 1)"));
  request_in_flight->succeeded(kHttp, {});
  metrics->reloaded("m", metrics::Metrics::Reload::kUnload, 1ms);
  request_in_flight.reset();
  const std::string page = metrics->serialise();
  EXPECT_EQ(page.find(R"(model="m")"), std::string::npos) << page;
  EXPECT_EQ(std::count(page.begin(), page.end(), '\n'), std::count(before.begin(), before.end(), '\n'));
  const auto again = make("m", "1");
  EXPECT_TRUE(has(metrics, R"(millrace_requests_total{model="m",outcome="success",reason="none",)"
                           R"(transport="http",version="1"} 0)"));
}

TEST_F(RegistryAndMetrics, DropsMetricSeriesWhileOtherThreadsIncrementCounters) {
  metrics = metrics::Metrics::create("1.2.3", metrics::Compatibility::kTriton, {kHttp}, {0ns, 256});
  std::atomic<int> left{3}, held{0}, missed{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        const std::string version = std::to_string(t % 2);  // two of the threads use one series
        for (int i = 0; i < 200; ++i) {
          const auto series = metrics->model("m", version);
          series->begun();
          if (!has(metrics, R"(millrace_requests_in_flight{model="m",version=")" + version + "\"} "))
            ++missed;
          series->succeeded(kHttp, {1us, 1us, 1us, 1us, 1us});
          ++held;
        }
        --left;
      });
    while (left > 0) static_cast<void>(metrics->serialise());
  }
  EXPECT_EQ(held, 600);
  EXPECT_EQ(missed, 0);
  EXPECT_FALSE(has(metrics, R"(millrace_requests_in_flight{model="m")"));
}

TEST_F(RegistryAndMetrics, KeepsTheMetricSeriesOfTheLatestWithdrawnVersions) {
  metrics = metrics::Metrics::create("1.2.3", metrics::Compatibility::kNone, {kHttp}, {24h, 3});
  const auto stays = make("m", "0");
  for (int version = 1; version <= 6; ++version) {
    make("m", std::to_string(version)).reset();
    metrics->serialise();
  }
  for (int version = 0; version <= 6; ++version)
    EXPECT_EQ(
        has(metrics, R"(millrace_requests_in_flight{model="m",version=")" + std::to_string(version) + "\"}"),
        version == 0 || version > 3)
        << version;
  for (int model = 0; model < 6; ++model) {
    metrics->reloaded("broken" + std::to_string(model), metrics::Metrics::Reload::kFailure, 1ms);
    metrics->serialise();
  }
  for (int model = 0; model < 6; ++model)
    EXPECT_EQ(
        has(metrics, R"(millrace_reload_seconds_count{model="broken)" + std::to_string(model) + "\"} 1"),
        model >= 3)
        << model;
  EXPECT_TRUE(has(metrics, R"(millrace_reloads_total{model="m",outcome="failure"} 0)"));
}

}  // namespace
}  // namespace millrace::server::models::test_models_and_metrics
