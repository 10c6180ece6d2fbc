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

#include "server/metrics/process.hpp"
#include "server/metrics/triton.hpp"

namespace millrace::server::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// From a swap that programs no card to a compilation.
const std::vector<double>& reload_buckets() {
  static const std::vector<double> buckets = {1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0,
                                              2.5,  5.0,    10,   25,   50,     100,  250, 500,  1000};
  return buckets;
}

/// Neighbours differ by at most a factor of two, which bounds the error of a quantile between them.
const std::vector<double>& latency_buckets() {
  static const std::vector<double> buckets = {2e-5, 3e-5, 5e-5, 7e-5, 1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3,
                                              2e-3, 3e-3, 5e-3, 7e-3, 1e-2, 2e-2, 3e-2, 5e-2, 7e-2, 0.1,
                                              0.2,  0.3,  0.5,  0.7,  1.0,  2.0,  3.0,  5.0,  7.0,  10.0};
  return buckets;
}

std::string digits(double value, int most) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.*g", most, value))};
}

/// prometheus-cpp writes a bound with 16 digits: 7e-5 as 6.999999999999999e-05, which no query would match.
std::string with_short_bounds(std::string page) {
  for (const double bound : latency_buckets()) {
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

struct Families {
  explicit Families(prometheus::Registry& registry)
      : requests(counters(registry, "millrace_requests_total",
                          "Inference requests answered, by transport, outcome and reason.")),
        requests_refused(counters(registry, "millrace_requests_refused_total",
                                  "Of the failures, requests that no pipeline took: they reached no card.")),
        in_flight(gauges(registry, "millrace_requests_in_flight",
                         "Inference requests taken and not yet answered.")),
        request(times(registry, "millrace_request_seconds", "From a request read to its answer ready.")),
        queue(times(registry, "millrace_queue_seconds", "Waiting for a slot of the pipeline.")),
        input(times(registry, "millrace_input_seconds", "Host stages before the cards, and copies in.")),
        compute(times(registry, "millrace_compute_seconds",
                      "From the first start of a card to the last completion.")),
        output(times(registry, "millrace_output_seconds", "Copies out, and host stages after the cards.")),
        http(counters(registry, "millrace_http_responses_total",
                      "HTTP answers of every route, by status code.")),
        connections(gauges(registry, "millrace_http_connections", "Open HTTP connections.").Add({})),
        refused(counters(registry, "millrace_http_connections_refused_total",
                         "HTTP connections closed because the limit was reached.")
                    .Add({})),
        reloads(counters(registry, "millrace_reloads_total", "Loads and unloads of models, by outcome.")),
        reload_seconds(times(registry, "millrace_reload_seconds",
                             "From the begin of a load to its end, the compilation apart.")) {}

  static prometheus::Family<prometheus::Counter>& counters(prometheus::Registry& registry, const char* name,
                                                           const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  static prometheus::Family<prometheus::Gauge>& gauges(prometheus::Registry& registry, const char* name,
                                                       const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
  }
  static prometheus::Family<prometheus::Histogram>& times(prometheus::Registry& registry, const char* name,
                                                          const char* help) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
  }

  prometheus::Family<prometheus::Counter>&requests, &requests_refused;
  prometheus::Family<prometheus::Gauge>& in_flight;
  prometheus::Family<prometheus::Histogram>&request, &queue, &input, &compute, &output;
  prometheus::Family<prometheus::Counter>& http;
  prometheus::Gauge& connections;
  prometheus::Counter& refused;
  prometheus::Family<prometheus::Counter>& reloads;
  prometheus::Family<prometheus::Histogram>& reload_seconds;
};

/// By Metrics::Reload.
constexpr std::array kOutcomes = {"success", "failure", "rollback", "cancelled", "unload"};

constexpr const char* name_of(Transport transport) {
  return transport == Transport::kUdp ? "udp" : "http";
}

class PrometheusModelMetrics final : public ModelMetrics {
 public:
  PrometheusModelMetrics(Families& families, const std::vector<Transport>& transports,
                         const std::string& name, const std::string& version)
      : PrometheusModelMetrics(families, transports,
                               prometheus::Labels{{"model", name}, {"version", version}}) {}

  /// Removes the series from the page. The object must not be used afterwards.
  void remove_from(Families& families) {
    families.in_flight.Remove(&in_flight_);
    families.queue.Remove(&queue_);
    families.input.Remove(&input_);
    families.compute.Remove(&compute_);
    families.output.Remove(&output_);
    for (const auto& [transport, by] : by_transport_) {
      families.requests.Remove(by.success);
      families.requests_refused.Remove(by.refused);
      families.request.Remove(by.request);
      for (const auto& [reason, counter] : by.failures) families.requests.Remove(counter);
    }
  }

  void begun() override { in_flight_.Increment(); }
  void passed_on() override { in_flight_.Decrement(); }

  void succeeded(Transport transport, const RequestTimes& times) override {
    const ByTransport& by = over(transport);
    in_flight_.Decrement();
    by.success->Increment();
    by.request->Observe(seconds(times.request));
    queue_.Observe(seconds(times.queue));
    input_.Observe(seconds(times.input));
    compute_.Observe(seconds(times.compute));
    output_.Observe(seconds(times.output));
  }

  void failed(Transport transport, ErrorCode reason, std::chrono::nanoseconds request) override {
    const ByTransport& by = over(transport);
    in_flight_.Decrement();
    by.request->Observe(seconds(request));
    by.failures.at(reason_of(reason))->Increment();
  }

  void refused(Transport transport, ErrorCode reason) override {
    const ByTransport& by = over(transport);
    by.failures.at(reason_of(reason))->Increment();
    by.refused->Increment();
  }

  TritonModel triton(const std::string& name, const std::string& version) const {
    const auto sum = [](const prometheus::Histogram& times) { return times.Collect().histogram.sample_sum; };
    TritonModel out{name, version, 0, {}, 0, sum(queue_), sum(input_), sum(compute_), sum(output_)};
    for (const auto& [transport, by] : by_transport_) {
      out.successes += by.success->Value();
      out.request_seconds += sum(*by.request);
      for (const auto& [reason, counter] : by.failures) out.failures[reason] += counter->Value();
    }
    return out;
  }

 private:
  struct ByTransport {
    prometheus::Counter *success, *refused;
    prometheus::Histogram* request;
    std::map<ErrorCode, prometheus::Counter*> failures;
  };

  PrometheusModelMetrics(Families& families, const std::vector<Transport>& transports,
                         const prometheus::Labels& labels)
      : in_flight_(families.in_flight.Add(labels)),
        queue_(families.queue.Add(labels, latency_buckets())),
        input_(families.input.Add(labels, latency_buckets())),
        compute_(families.compute.Add(labels, latency_buckets())),
        output_(families.output.Add(labels, latency_buckets())) {
    for (const Transport transport : transports) {
      prometheus::Labels own = labels;
      own["transport"] = name_of(transport);
      ByTransport& by = by_transport_[transport];
      by.success = &families.requests.Add(with_outcome(own, "success", "none"));
      by.refused = &families.requests_refused.Add(own);
      by.request = &families.request.Add(own, latency_buckets());
      for (const ErrorCode reason : kReasons)
        by.failures[reason] =
            &families.requests.Add(with_outcome(own, "failure", std::string(to_string(reason))));
    }
  }

  const ByTransport& over(Transport transport) const { return by_transport_.at(transport); }

  static prometheus::Labels with_outcome(prometheus::Labels labels, const std::string& outcome,
                                         const std::string& reason) {
    labels["outcome"] = outcome;
    labels["reason"] = reason;
    return labels;
  }

  prometheus::Gauge& in_flight_;
  prometheus::Histogram &queue_, &input_, &compute_, &output_;
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
      : families_(registry_),
        compatibility_(compatibility),
        transports_(std::move(transports)),
        retention_(retention) {
    Families::gauges(registry_, "millrace_build_info", "Constant 1; the labels say what runs.")
        .Add({{"version", version}, {"compiler", kCompiler}})
        .Set(1);
  }

  std::shared_ptr<ModelMetrics> model(const std::string& name, const std::string& version) override {
    const std::lock_guard lock(mutex_);
    drop_what_is_gone();
    const auto key = std::make_pair(name, version);
    auto entry = models_.find(key);
    if (entry == models_.end()) {
      reloads_of(name);
      auto series = std::make_shared<PrometheusModelMetrics>(families_, transports_, name, version);
      entry = models_.emplace(key, Series{std::move(series), {}}).first;
    }
    entry->second.gone.reset();
    return entry->second.series;
  }

  void http_answered(unsigned status) override {
    const std::size_t index = status < by_status_.size() ? status : 0;
    prometheus::Counter* counter = by_status_[index].load(std::memory_order_acquire);
    if (counter == nullptr) {
      // Two threads may come here; Add() returns the same counter for the same labels.
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
    Reloads& reloads = reloads_of(name);
    reloads.last = Clock::now();
    reloads.by_outcome.at(static_cast<std::size_t>(outcome))->Increment();
    reloads.took->Observe(seconds(took));
  }
  void count(const std::string& name, const std::string& help, const Labels& labels) override {
    // Register() and Add() return what the same name and labels got before.
    Families::counters(registry_, name.c_str(), help.c_str()).Add({labels.begin(), labels.end()}).Increment();
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
  struct Series {
    std::shared_ptr<PrometheusModelMetrics> series;
    std::optional<Clock::time_point> gone;  // when it was noticed that nobody holds it
  };
  struct Reloads {
    std::vector<prometheus::Counter*> by_outcome;
    prometheus::Histogram* took = nullptr;
    Clock::time_point last;
  };

  Reloads& reloads_of(const std::string& name) {
    Reloads& reloads = reloads_[name];
    if (reloads.took != nullptr) return reloads;
    // Make all series at once, so that Prometheus sees the first failure as an increase.
    for (const char* outcome : kOutcomes)
      reloads.by_outcome.push_back(&families_.reloads.Add({{"model", name}, {"outcome", outcome}}));
    reloads.took = &families_.reload_seconds.Add({{"model", name}}, reload_buckets());
    reloads.last = Clock::now();
    return reloads;
  }

  /// mutex_ is held, so nobody can begin to hold a series that nobody holds now.
  void drop_what_is_gone() {
    const Clock::time_point now = Clock::now();
    std::multimap<Clock::time_point, decltype(models_)::iterator> gone;
    for (auto entry = models_.begin(); entry != models_.end(); ++entry) {
      if (entry->second.series.use_count() > 1) continue;
      if (!entry->second.gone) entry->second.gone = now;
      gone.emplace(*entry->second.gone, entry);
    }
    // use_count() does not synchronise, so order the last holders' counting before the destruction.
    std::atomic_thread_fence(std::memory_order_acquire);
    const auto drops = [&](Clock::time_point since, std::size_t left) {
      return now - since >= retention_.time || left > retention_.most;
    };
    for (std::size_t left = gone.size(); const auto& [since, entry] : gone) {
      if (!drops(since, left--)) break;
      entry->second.series->remove_from(families_);
      models_.erase(entry);
    }
    // Models without any version left, and models that never had one.
    std::multimap<Clock::time_point, decltype(reloads_)::iterator> unused;
    for (auto reloads = reloads_.begin(); reloads != reloads_.end(); ++reloads) {
      const auto first = models_.lower_bound({reloads->first, {}});
      if (first != models_.end() && first->first.first == reloads->first) continue;
      unused.emplace(reloads->second.last, reloads);
    }
    for (std::size_t left = unused.size(); const auto& [since, reloads] : unused) {
      if (!drops(since, left--)) break;
      for (const auto counter : reloads->second.by_outcome) families_.reloads.Remove(counter);
      families_.reload_seconds.Remove(reloads->second.took);
      reloads_.erase(reloads);
    }
  }

  void append_triton(std::vector<MetricFamily>& families) {
    std::vector<TritonModel> models;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, entry] : models_) models.push_back(entry.series->triton(key.first, key.second));
    }
    server::metrics::append_triton(models, families);
  }

  prometheus::Registry registry_;
  Families families_;
  const Compatibility compatibility_;
  const std::vector<Transport> transports_;
  const Retention retention_;
  std::array<std::atomic<prometheus::Counter*>, 600> by_status_{};

  std::mutex mutex_;  // protects the following members
  std::map<std::pair<std::string, std::string>, Series> models_;
  std::map<std::string, Reloads> reloads_;  // by model; one for each that has an entry in models_
  std::function<void(Samples&)> sampler_;
};

}  // namespace

std::unique_ptr<Metrics> Metrics::create(const std::string& version, Compatibility compatibility,
                                         std::vector<Transport> transports, Retention retention) {
  return std::make_unique<PrometheusMetrics>(version, compatibility, std::move(transports), retention);
}

}  // namespace millrace::server::metrics
