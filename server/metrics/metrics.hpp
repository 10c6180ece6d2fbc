// All metrics of the server, and the page that Prometheus scrapes (text format 0.0.4).
//
// Counters and histograms are updated where things happen. A sampler reads cards and links at each scrape.
// Series outlive their model, so that a model that is loaded again goes on counting; Retention limits how
// long. README.md lists the names. Any thread, unless a comment says otherwise.
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
  std::chrono::nanoseconds request{0};  // last byte of the request read to answer ready
  std::chrono::nanoseconds queue{0}, input{0}, compute{0}, output{0};
};

/// The protocol of a request.
enum class Transport { kHttp, kUdp };

/// The series of one served model version. Must not be used after its Metrics.
class ModelMetrics {
 public:
  virtual ~ModelMetrics() = default;
  virtual void begun() = 0;                                                        // in flight + 1
  virtual void succeeded(Transport, const RequestTimes& times) = 0;                // in flight - 1
  virtual void failed(Transport, ErrorCode reason, std::chrono::nanoseconds) = 0;  // in flight - 1
  virtual void refused(Transport, ErrorCode reason) = 0;                           // never was in flight
  virtual void passed_on() = 0;  // in flight - 1: another version answers it, or refused() follows
};

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Receives the values that a sampler reports at one scrape. Samples of one name must have one type; the help
/// text of the first is used.
class Samples {
 public:
  virtual ~Samples() = default;
  virtual void counter(std::string_view name, std::string_view help, Labels labels, double value) = 0;
  virtual void gauge(std::string_view name, std::string_view help, Labels labels, double value) = 0;
};

enum class Compatibility {
  kNone,
  kTriton,  // Triton's nv_inference_* beside ours, for dashboards that know them
};

/// How long the series of a model version are kept after nobody holds them.
struct Retention {
  std::chrono::nanoseconds time = std::chrono::hours(1);
  std::size_t most = 256;  // versions; beyond it the oldest are dropped early
};

class Metrics {
 public:
  /// `version` goes into millrace_build_info. Every model has series for each of `transports` from the start;
  /// requests over other transports must not be counted.
  static std::unique_ptr<Metrics> create(const std::string& version,
                                         Compatibility compatibility = Compatibility::kNone,
                                         std::vector<Transport> transports = {Transport::kHttp},
                                         Retention retention = {});
  virtual ~Metrics() = default;

  /// The series of a model version. Returns the same object again as long as somebody holds it, and for the
  /// retention after that.
  virtual std::shared_ptr<ModelMetrics> model(const std::string& name, const std::string& version) = 0;

  virtual void http_answered(unsigned status) = 0;
  virtual void connection_opened() = 0;
  virtual void connection_closed() = 0;
  virtual void connection_refused() = 0;

  /// Counts a load or unload of a model that has ended, by its outcome.
  enum class Reload { kSuccess, kFailure, kRollback, kCancelled, kUnload };
  virtual void reloaded(const std::string& model, Reload outcome, std::chrono::nanoseconds took) = 0;

  /// Adds 1 to a counter, which the first call makes. This is all that a new counter needs; a value that is
  /// read at each scrape goes to the sampler.
  virtual void count(const std::string& name, const std::string& help, const Labels& labels) = 0;

  /// Called at every scrape, on the thread of serialise(). Set before the first scrape.
  virtual void set_sampler(std::function<void(Samples&)> sampler) = 0;

  /// The page, without series beyond their retention. Reads /proc and calls the sampler, so it must not run
  /// on an I/O thread.
  virtual std::string serialise() = 0;
};

}  // namespace millrace::server::metrics
