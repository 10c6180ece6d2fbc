// Settings and results of one run of requests against a server.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/client.hpp"
#include "runtime/base/result.hpp"
#include "tools/clients/http_client.hpp"
#include "tools/load/histogram.hpp"
#include "tools/load/schedule.hpp"

namespace millrace::load {

struct Settings {
  std::optional<double> rate;     // requests per second of an open loop; empty: closed loop
  std::uint32_t connections = 1;  // if all are busy in an open loop, requests are sent late
  std::chrono::nanoseconds warmup{0}, duration{0};
  std::chrono::milliseconds timeout{10000};  // of one request, counted from when it is sent
};

/// A request counts as late if it is sent later than intended by more than this duration.
constexpr std::chrono::nanoseconds kLate = std::chrono::milliseconds(1);

/// The results of a run. `latency` and `send_delay` cover only measured requests; `errors` also covers the warm-up.
struct Tally {
  Histogram latency;     // of successful requests, counted from the intended time
  Histogram send_delay;  // delay from the intended time to sending; open loop only
  std::uint64_t late = 0;
  std::map<std::string, std::uint64_t> errors;  // "429", "timeout", "connection", "unsent", …
  Clock::time_point last{};                     // when the last measured request succeeded
  std::chrono::nanoseconds measured{
      0};  // from the end of the warm-up to the end of the run, or to `last` where that is later

  void sent(const Slot& slot, Clock::time_point now) {
    if (!slot.measured) return;
    send_delay.record(now - slot.intended);
    late += now - slot.intended > kLate;
  }
  void succeeded(const Slot& slot, Clock::time_point now) {
    if (!slot.measured) return;
    latency.record(now - slot.intended);
    last = std::max(last, now);
  }
  void failed(const std::string& why, std::uint64_t count = 1) { errors[why] += count; }
  void merge(const Tally& other);

  /// Call at the end of a run: counts the requests that were never sent, and sets the run's duration.
  void finish(const Schedule& schedule);
};

/// The address of an HTTP server, and how to access it.
struct Address {
  clients::Url url;
  clients::Access access = {};
};

/// Runs a load over HTTP. `requests` are complete HTTP messages, which are sent in turn. One thread drives all
/// connections. Returns kUnavailable if the connections cannot be made, and kEnvironment if there are too few file
/// descriptors. Failures of single requests are only counted.
Result<Tally> run_http(const Address& address, std::span<const std::string> requests,
                       const Settings& settings);

/// Runs a load over UDP. `frames` are sent in turn; each frame holds the model's inputs. Every connection has its own
/// thread and client, with `options` except the timeout, which `settings` has. Fails if a client cannot connect.
Result<Tally> run_udp(const std::string& url, client::Options options, const std::string& model,
                      std::span<const std::vector<std::vector<std::byte>>> frames, const Settings& settings);

/// Returns a POST request of the Open Inference Protocol with `inputs` as binary tensors after a JSON header. If `raw`
/// is set, the body is the only input tensor, without a JSON header.
std::string infer_request(const Address& address, const client::ModelInfo& model,
                          std::span<const std::vector<std::byte>> inputs, bool raw);

/// Converts a status of the client library to an Error.
Error error_of(const client::Status& status);

}  // namespace millrace::load
