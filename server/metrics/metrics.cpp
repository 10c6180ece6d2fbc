#include "server/metrics/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>

#include "server/metrics/page.hpp"

namespace millrace::server::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// The buckets cover all durations from a swap that programs no card to a load with a compilation.
const std::vector<double> kReloadBuckets = {1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0,
                                            2.5,  5.0,    10,   25,   50,     100,  250, 500,  1000};

/// Adjacent bounds of the buckets differ by at most a factor of two, which limits the error of quantiles.
const std::vector<double> kLatencyBuckets = {2e-5, 3e-5, 5e-5, 7e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3,
                                             2e-3, 3e-3, 5e-3, 7e-3, 1e-2, 2e-2, 3e-2, 5e-2, 7e-2, 0.1,
                                             0.2,  0.3,  0.5,  0.7,  1.0,  2.0,  3.0,  5.0,  7.0,  10.0};

std::string digits(double value, int most) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.*g", most, value))};
}

/// Shortens the bounds of buckets in the page. prometheus-cpp writes 16 digits, so that 7e-5 becomes
/// 6.999999999999999e-05, which no query would match.
std::string with_short_bounds(std::string page) {
  for (const double bound : kLatencyBuckets) {
    const std::string from = ",le=\"" + digits(bound, 16) + '"', to = ",le=\"" + digits(bound, 15) + '"';
    if (from == to) continue;
    for (auto at = page.find(from); at != std::string::npos; at = page.find(from, at + to.size()))
      page.replace(at, from.size(), to);
  }
  return page;
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// The values of the label `reason` of a failed request.
constexpr std::array kReasons = {
    ErrorCode::kInvalidInput,      ErrorCode::kNotFound,    ErrorCode::kUnsupported,
    ErrorCode::kResourceExhausted, ErrorCode::kUnavailable, ErrorCode::kDeadlineExceeded,
    ErrorCode::kCancelled,         ErrorCode::kInternal,
};

ErrorCode reason_of(ErrorCode code) {
  for (const ErrorCode reason : kReasons)
    if (reason == code) return reason;
  return ErrorCode::kInternal;
}

using Counters = prometheus::Family<prometheus::Counter>;
using Gauges = prometheus::Family<prometheus::Gauge>;
using Histograms = prometheus::Family<prometheus::Histogram>;

struct Families {
  prometheus::Registry& registry;

  Counters& counters(const std::string& name, const std::string& help) const {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Gauges& gauges(const char* name, const char* help) const {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  Histograms& times(const char* name, const char* help) const {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }

  Counters& requests =
      counters("millrace_requests_total", "Inference requests answered, by transport, outcome and reason.");
  Counters& requests_refused =
      counters("millrace_requests_refused_total",
               "Failed inference requests that reached no card, because no pipeline accepted them.");
  Gauges& in_flight = gauges("millrace_requests_in_flight",
                             "Inference requests that were accepted but are not yet answered.");
  Histograms& request =
      times("millrace_request_seconds", "Time from the end of reading a request until its answer is ready.");
  Histograms& queue =
      times("millrace_queue_seconds", "Time that a request waits until the pipeline can take its frame.");
  Histograms& input =
      times("millrace_input_seconds",
            "Time to compute the layers on the host before the cards and copy inputs to the cards.");
  Histograms& compute = times("millrace_compute_seconds",
                              "Time from a frame's start on the first card to its end on the last card.");
  Histograms& output =
      times("millrace_output_seconds",
            "Time to copy results from the cards and compute the layers on the host after the cards.");
  Counters& http = counters("millrace_http_responses_total", "HTTP answers of every route, by status code.");
  prometheus::Gauge& connections = gauges("millrace_http_connections", "Open HTTP connections.").Add({});
  prometheus::Counter& refused = counters("millrace_http_connections_refused_total",
                                          "HTTP connections closed because the limit was reached.")
                                     .Add({});
  Counters& reloads = counters("millrace_reloads_total", "Loads and unloads of models, by outcome.");
  Histograms& reload_seconds =
      times("millrace_reload_seconds",
            "Time of a load or unload from its start to its end, without the compilation.");
};

/// A group of series that are removed from the page together.
class SeriesGroup {
 public:
  /// Adds a series to `family` and to this group. `bounds` are the bucket bounds if the series is a histogram.
  template <class T, class... Bounds>
  T& add(prometheus::Family<T>& family, const prometheus::Labels& labels, const Bounds&... bounds) {
    T& series = family.Add(labels, bounds...);
    removals_.push_back([&family, &series] { family.Remove(&series); });
    return series;
  }
  /// Removes the series from the page. These series must not be used afterwards.
  void remove() const {
    for (const auto& remove_one : removals_) remove_one();
  }

 private:
  std::vector<std::function<void()>> removals_;
};

/// The values of the label `outcome`, in the order of Metrics::Reload.
constexpr std::array kOutcomes = {"success", "failure", "rollback", "cancelled", "unload"};

/// The series about loads and unloads of one model. All series are created at once with the value 0, so that Prometheus
/// sees the first failure as an increase.
struct Reloads : SeriesGroup {
  Reloads(Families& families, const std::string& model)
      : took(add(families.reload_seconds, {{"model", model}}, kReloadBuckets)) {
    for (const char* outcome : kOutcomes)
      by_outcome.push_back(&add(families.reloads, {{"model", model}, {"outcome", outcome}}));
  }

  prometheus::Histogram& took;
  std::vector<prometheus::Counter*> by_outcome;
};

class PrometheusModelMetrics final : public ModelMetrics, public SeriesGroup {
 public:
  PrometheusModelMetrics(Families& families, const std::vector<Transport>& transports,
                         const prometheus::Labels& labels, std::shared_ptr<Reloads> reloads)
      : in_flight_(add(families.in_flight, labels)),
        queue_(add(families.queue, labels, kLatencyBuckets)),
        input_(add(families.input, labels, kLatencyBuckets)),
        compute_(add(families.compute, labels, kLatencyBuckets)),
        output_(add(families.output, labels, kLatencyBuckets)),
        reloads_(std::move(reloads)) {
    for (const Transport transport : transports) {
      prometheus::Labels own = labels;
      own["transport"] = transport == Transport::kUdp ? "udp" : "http";
      ByTransport& by = by_transport_[transport];
      by.refused = &add(families.requests_refused, own);
      by.request = &add(families.request, own, kLatencyBuckets);
      own["outcome"] = "success";
      own["reason"] = "none";
      by.success = &add(families.requests, own);
      own["outcome"] = "failure";
      for (const ErrorCode reason : kReasons) {
        own["reason"] = to_string(reason);
        by.failures[reason] = &add(families.requests, own);
      }
    }
  }

  void begun() override { in_flight_.Increment(); }
  void passed_on() override { in_flight_.Decrement(); }

  void succeeded(Transport transport, const RequestTimes& times) override {
    const ByTransport& by = by_transport_.at(transport);
    in_flight_.Decrement();
    by.success->Increment();
    by.request->Observe(seconds(times.request));
    queue_.Observe(seconds(times.queue));
    input_.Observe(seconds(times.input));
    compute_.Observe(seconds(times.compute));
    output_.Observe(seconds(times.output));
  }

  void failed(Transport transport, ErrorCode reason, std::chrono::nanoseconds request) override {
    const ByTransport& by = by_transport_.at(transport);
    in_flight_.Decrement();
    by.request->Observe(seconds(request));
    by.failures.at(reason_of(reason))->Increment();
  }

  void refused(Transport transport, ErrorCode reason) override {
    const ByTransport& by = by_transport_.at(transport);
    by.failures.at(reason_of(reason))->Increment();
    by.refused->Increment();
  }

 private:
  struct ByTransport {
    prometheus::Counter *success, *refused;
    prometheus::Histogram* request;
    std::map<ErrorCode, prometheus::Counter*> failures;
  };

  prometheus::Gauge& in_flight_;
  prometheus::Histogram &queue_, &input_, &compute_, &output_;
  const std::shared_ptr<Reloads> reloads_;         // exists as long as any version of the model has metrics
  std::map<Transport, ByTransport> by_transport_;  // constant after construction
};

class FamilySamples final : public Samples {
 public:
  void counter(std::string_view name, std::string_view help, Labels labels, double value) override {
    add(MetricType::Counter, name, help, std::move(labels)).counter.value = value;
  }
  void gauge(std::string_view name, std::string_view help, Labels labels, double value) override {
    add(MetricType::Gauge, name, help, std::move(labels)).gauge.value = value;
  }
  void append_to(std::vector<MetricFamily>& families) {
    for (auto& [name, family] : families_) families.push_back(std::move(family));
  }

 private:
  ClientMetric& add(MetricType type, std::string_view name, std::string_view help, Labels labels) {
    MetricFamily& family = families_[std::string(name)];
    if (family.metric.empty()) {
      family.name = name;
      family.help = help;
      family.type = type;
    }
    assert(family.type == type);
    ClientMetric& metric = family.metric.emplace_back();
    for (auto& [key, value] : labels) metric.label.push_back({std::move(key), std::move(value)});
    return metric;
  }

  std::map<std::string, MetricFamily> families_;
};

class PrometheusMetrics final : public Metrics {
 public:
  PrometheusMetrics(const std::string& version, Compatibility compatibility,
                    std::vector<Transport> transports, Retention retention)
      : compatibility_(compatibility), transports_(std::move(transports)), retention_(retention) {
    families_.gauges("millrace_build_info", "Constant 1; the labels say what runs.")
        .Add({{"version", version}, {"compiler", kCompiler}})
        .Set(1);
  }

  std::shared_ptr<ModelMetrics> model(const std::string& name, const std::string& version) override {
    const std::lock_guard lock(mutex_);
    drop_what_is_gone();
    auto& [series, gone] = models_[{name, version}];
    if (series == nullptr)
      series = std::make_shared<PrometheusModelMetrics>(
          families_, transports_, prometheus::Labels{{"model", name}, {"version", version}},
          reloads_of(name));
    gone.reset();
    return series;
  }

  void http_answered(unsigned status) override {
    const std::size_t index = status < by_status_.size() ? status : 0;
    prometheus::Counter* counter = by_status_[index].load(std::memory_order_acquire);
    if (counter == nullptr) {
      // Two threads may get here at once: Add() returns the same counter for the same labels.
      counter = &families_.http.Add({{"code", std::to_string(index)}});
      by_status_[index].store(counter, std::memory_order_release);
    }
    counter->Increment();
  }

  void connection_opened() override { families_.connections.Increment(); }
  void connection_closed() override { families_.connections.Decrement(); }
  void connection_refused() override { families_.refused.Increment(); }

  void reloaded(const std::string& name, Reload outcome, std::chrono::nanoseconds took) override {
    const std::lock_guard lock(mutex_);
    drop_what_is_gone();
    const auto reloads = reloads_of(name);
    reloads->by_outcome.at(static_cast<std::size_t>(outcome))->Increment();
    reloads->took.Observe(seconds(took));
  }

  void count(const std::string& name, const std::string& help, const Labels& labels) override {
    // Register() and Add() return the existing family and counter if name and labels are known.
    families_.counters(name, help).Add({labels.begin(), labels.end()}).Increment();
  }

  void set_sampler(std::function<void(Samples&)> sampler) override {
    const std::lock_guard lock(mutex_);
    sampler_ = std::move(sampler);
  }

  std::string serialise() override {
    std::function<void(Samples&)> sampler;
    {
      const std::lock_guard lock(mutex_);
      sampler = sampler_;
      drop_what_is_gone();
    }
    std::vector<MetricFamily> families = registry_.Collect();
    FamilySamples samples;
    sample_process(samples);
    if (sampler) sampler(samples);
    samples.append_to(families);
    if (compatibility_ == Compatibility::kTriton) append_triton(families);
    return with_short_bounds(prometheus::TextSerializer{}.Serialize(families));
  }

 private:
  static constexpr const char* kCompiler =
#ifdef __clang__
      "clang " __clang_version__;
#else
      "gcc " __VERSION__;
#endif

  using Clock = std::chrono::steady_clock;
  template <class T>
  struct Kept {
    std::shared_ptr<T> series;
    std::optional<Clock::time_point> gone;  // when drop_from() first found that nobody else owns `series`
  };

  std::shared_ptr<Reloads> reloads_of(const std::string& name) {
    auto& [series, gone] = reloads_[name];
    if (series == nullptr) series = std::make_shared<Reloads>(families_, name);
    gone.reset();
    return series;
  }

  /// Removes unowned series whose retention has ended. Called with the mutex held, so that no other thread can obtain
  /// such a series meanwhile.
  void drop_what_is_gone() {
    drop_from(models_);
    drop_from(reloads_);
  }

  template <class Map>
  void drop_from(Map& kept) {
    const Clock::time_point now = Clock::now();
    std::multimap<Clock::time_point, typename Map::iterator> gone;
    for (auto entry = kept.begin(); entry != kept.end(); ++entry) {
      if (entry->second.series.use_count() > 1) continue;
      if (!entry->second.gone) entry->second.gone = now;
      gone.emplace(*entry->second.gone, entry);
    }
    // use_count() does not synchronise with other threads. The fence makes the updates of the last owners
    // happen before the series is destroyed.
    std::atomic_thread_fence(std::memory_order_acquire);
    for (std::size_t left = gone.size(); const auto& [since, entry] : gone) {
      if (now - since < retention_.time && left <= retention_.most) break;
      --left;
      entry->second.series->remove();
      kept.erase(entry);
    }
  }

  prometheus::Registry registry_;
  Families families_{registry_};
  const Compatibility compatibility_;
  const std::vector<Transport> transports_;
  const Retention retention_;
  std::array<std::atomic<prometheus::Counter*>, 600> by_status_{};

  std::mutex mutex_;  // protects the following members
  std::map<std::pair<std::string, std::string>, Kept<PrometheusModelMetrics>> models_;
  std::map<std::string, Kept<Reloads>> reloads_;  // by model
  std::function<void(Samples&)> sampler_;
};

}  // namespace

std::unique_ptr<Metrics> Metrics::create(const std::string& version, Compatibility compatibility,
                                         std::vector<Transport> transports, Retention retention) {
  return std::make_unique<PrometheusMetrics>(version, compatibility, std::move(transports), retention);
}

}  // namespace millrace::server::metrics
