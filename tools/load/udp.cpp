// Runs a load over UDP with one thread and one client per connection, because the client library blocks.
#include <sys/prctl.h>

#include <mutex>
#include <thread>

#include "tools/load/run.hpp"

namespace millrace::load {
namespace {

using Frames = std::span<const std::vector<std::vector<std::byte>>>;

/// The pause after a failed request. If nothing listens at the port any more, requests fail at once, and a run without
/// pauses would occupy a processor core.
constexpr auto kAfterFailure = std::chrono::milliseconds(10);

const char* name_of(client::Code code) {
  switch (code) {
    case client::Code::kOk:
      return "ok";
    case client::Code::kInvalid:
      return "invalid";
    case client::Code::kNotFound:
      return "not_found";
    case client::Code::kDenied:
      return "denied";
    case client::Code::kUntrusted:
      return "untrusted";
    case client::Code::kBusy:
      return "busy";
    case client::Code::kUnavailable:
      return "unavailable";
    case client::Code::kDeadline:
      return "timeout";
    case client::Code::kProtocol:
      return "protocol";
    case client::Code::kInternal:
      return "internal";
  }
  return "unknown";
}

struct Shared {
  std::mutex mutex;
  Schedule schedule;
};

void work(client::Client& client, Shared& shared, const std::string& model, Frames frames,
          const Settings& settings, Tally& tally) {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::vector<client::Input> inputs;
  std::vector<std::vector<std::byte>> outputs;
  while (true) {
    std::optional<Slot> slot;
    {
      const std::lock_guard lock(shared.mutex);
      slot = shared.schedule.take(Clock::now());
    }
    if (!slot) return;
    std::this_thread::sleep_until(slot->intended);
    const auto& frame = frames[slot->index % frames.size()];
    inputs.assign(frame.begin(), frame.end());
    tally.sent(*slot, Clock::now());
    const client::Status status = client.infer(model, "", inputs, settings.timeout, outputs);
    if (status.ok()) {
      tally.succeeded(*slot, Clock::now());
    } else {
      tally.failed(name_of(status.code));
      if (status.code == client::Code::kUnavailable) std::this_thread::sleep_for(kAfterFailure);
    }
  }
}

}  // namespace

Result<Tally> run_udp(const std::string& url, client::Options options, const std::string& model,
                      Frames frames, const Settings& settings) {
  options.timeout = settings.timeout;
  std::vector<std::unique_ptr<client::Client>> connected(settings.connections);
  for (auto& one : connected) {
    if (const auto s = client::connect(url, options, one); !s.ok()) return error_of(s);
    client::ModelInfo ignored;  // look up the model now, not in the first request
    if (const auto s = one->model(model, "", ignored); !s.ok()) return error_of(s);
  }
  Shared shared{{}, Schedule(Clock::now(), settings.warmup, settings.duration, settings.rate)};
  std::vector<Tally> tallies(connected.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < connected.size(); ++i)
      threads.emplace_back([&, i] { work(*connected[i], shared, model, frames, settings, tallies[i]); });
  }
  Tally sum;
  for (const Tally& tally : tallies) sum.merge(tally);
  sum.finish(shared.schedule);
  return sum;
}

}  // namespace millrace::load
