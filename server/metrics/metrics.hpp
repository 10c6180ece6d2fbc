// All metrics of the server, and the page that Prometheus scrapes (text format 0.0.4).
//
// The code that handles an event updates its counters and histograms. A sampler reads cards and links at each scrape.
// Series are kept when their model is unloaded, so that they go on counting if it is loaded again; Retention limits for
// how long. README.md lists the names. Any thread may call the functions, unless a comment says otherwise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::metrics {

/// How long each part of a request took.
struct RequestTimes {
  std::chrono::nanoseconds request{0};  // from reading the last byte of the request until the answer is ready
  std::chrono::nanoseconds queue{0}, input{0}, compute{0}, output{0};
};

/// The protocol of a request.
enum class Transport { kHttp, kUdp };

/// The series of one model version. Must not be used after the Metrics object is destroyed. begun() adds 1 to the
/// number of requests in flight; succeeded(), failed() and passed_on() subtract 1.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;
  virtual void begun() = 0;
  virtual void succeeded(Transport, const RequestTimes& times) = 0;
  virtual void failed(Transport, ErrorCode reason, std::chrono::nanoseconds) = 0;
  virtual void refused(Transport, ErrorCode reason) = 0;  // the request was never in flight
  virtual void passed_on() = 0;  // another version answers the request, or a call of refused() follows
};

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Receives the values that a sampler reports at one scrape. All samples of one name must have the same type;
/// the help text of the first sample is used.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual void counter(std::string_view name, std::string_view help, Labels labels, double value) = 0;
  virtual void gauge(std::string_view name, std::string_view help, Labels labels, double value) = 0;
};

enum class Compatibility {
  kNone,
  kTriton,  // adds Triton's nv_inference_* metrics, for dashboards that expect them
};

/// How long the series of a model version are kept after the last holder has released them.
struct Retention {
  std::chrono::nanoseconds time = std::chrono::hours(1);
  std::size_t most = 256;  // limit of versions whose series are kept; the oldest is dropped first
};

class Metrics {
 public:
  /// `version` is the server's version, for millrace_build_info. Every model has series for each of
  /// `transports` from the start. Requests over other transports must not be counted.
  static std::unique_ptr<Metrics> create(const std::string& version,
                                         Compatibility compatibility = Compatibility::kNone,
                                         std::vector<Transport> transports = {Transport::kHttp},
                                         Retention retention = {});
  virtual ~Metrics() = default;

  /// Returns the series of a model version. The object is the same one for as long as somebody holds it, and
  /// for the time of the retention after that.
  virtual std::shared_ptr<ModelMetrics> model(const std::string& name, const std::string& version) = 0;

  virtual void http_answered(unsigned status) = 0;
  virtual void connection_opened() = 0;
  virtual void connection_closed() = 0;
  virtual void connection_refused() = 0;

  /// Counts a load or unload that has ended, by its outcome. `took` says how long the load or unload lasted.
  enum class Reload { kSuccess, kFailure, kRollback, kCancelled, kUnload };
  virtual void reloaded(const std::string& model, Reload outcome, std::chrono::nanoseconds took) = 0;

  /// Adds 1 to a counter, which the first call creates. A value that must be read at each scrape belongs in the
  /// sampler instead.
  virtual void count(const std::string& name, const std::string& help, const Labels& labels) = 0;

  /// Sets the function that every scrape calls, on the thread of serialise(). Call before the first scrape.
  virtual void set_sampler(std::function<void(Samples&)> sampler) = 0;

  /// Returns the page that Prometheus scrapes, without series whose retention has ended. Reads /proc and
  /// calls the sampler, so it must not run on an I/O thread.
  virtual std::string serialise() = 0;
};

}  // namespace millrace::server::metrics
