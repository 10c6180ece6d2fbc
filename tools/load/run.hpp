// One run of requests against a server: what is sent, and what is counted.
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
  std::optional<double> rate;     // open loop; nothing: closed
  std::uint32_t connections = 1;  // an open loop's bound: beyond it requests are sent late
  std::chrono::nanoseconds warmup{0}, duration{0};
  std::chrono::milliseconds timeout{10000};  // of one request, from its sending
};

/// A send later than this after its intended time is reported as late.
constexpr std::chrono::nanoseconds kLate = std::chrono::milliseconds(1);

/// What a run came to. `latency` and `send_delay` are of measured requests; errors count those of the warm-up
/// as well.
struct Tally {
  Histogram latency;     // of those that succeeded, from the intended time
  Histogram send_delay;  // intended time to sending; open loop
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

  /// At the end of a run: what was never sent, and how long it took.
  void finish(const Schedule& schedule);
};

/// A server over HTTP.
struct Address {
  clients::Url url;
  clients::Access access = {};
};

/// `requests` are whole HTTP messages, sent in turn. One thread, which waits for all connections.
/// kUnavailable where they cannot be made, kEnvironment where there are no descriptors for them; what fails
/// later is counted.
Result<Tally> run_http(const Address& address, std::span<const std::string> requests,
                       const Settings& settings);

/// `frames`: each the model's inputs, sent in turn. A thread and a client a connection, with these options
/// but for the timeout, which is the settings'. The error of a client that cannot connect.
Result<Tally> run_udp(const std::string& url, client::Options options, const std::string& model,
                      std::span<const std::vector<std::vector<std::byte>>> frames, const Settings& settings);

/// A POST of `inputs` to the model, as the Open Inference Protocol has it: binary tensors behind a JSON
/// header, or, `raw`, the one input alone.
std::string infer_request(const Address& address, const client::ModelInfo& model,
                          std::span<const std::vector<std::byte>> inputs, bool raw);

/// A library's status as Result carries it.
Error error_of(const client::Status& status);

}  // namespace millrace::load
