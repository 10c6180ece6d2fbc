// Fakes around the UDP engine: a pipeline, a directory of models, and a sender that records.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/udp/listener.hpp"
#include "server/udp/models.hpp"
#include "server/udp/sender.hpp"
#include "server/udp/wire/header.hpp"

namespace millrace::tests {

using runtime::pipeline::Frame;
using Bytes = std::vector<std::byte>;

/// Returns `size` pseudo-random bytes that depend only on `size` and `seed`.
inline Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes out(size);
  std::uint64_t x = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::byte& b : out) {
    x ^= x << 13U;
    x ^= x >> 7U;
    x ^= x << 17U;
    b = static_cast<std::byte>(x);
  }
  return out;
}

/// Computes the fake model: output byte i depends on two input bytes and on i.
inline void compute(std::span<const std::byte> in, std::span<std::byte> out) {
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = in[i % in.size()] ^ in[(i * 7 + 3) % in.size()] ^ static_cast<std::byte>(i * 31 + 5);
}

/// A pipeline that computes a frame inside submit(), later on its own thread, or when the test calls complete_one().
class FakePipeline final : public runtime::pipeline::Pipeline {
 public:
  enum class Mode { kInline, kThread, kManual };

  FakePipeline(Mode mode, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs)
      : mode_(mode) {
    plan.model.name = "fake";
    for (std::size_t i = 0; i < inputs.size(); ++i)
      plan.model.inputs.push_back({"in" + std::to_string(i), "UINT8", {1, inputs[i]}});
    for (std::size_t i = 0; i < outputs.size(); ++i)
      plan.model.outputs.push_back({"out" + std::to_string(i), "UINT8", {1, outputs[i]}});
    if (mode == Mode::kThread) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~FakePipeline() override {
    if (!thread_.joinable()) return;
    {
      // Without the lock, the thread could check for a stop just before request_stop(), miss the notification, and wait
      // forever.
      const std::lock_guard lock(mutex_);
      thread_.request_stop();
    }
    changed_.notify_all();
    thread_.join();
  }

  const runtime::plan::Deployment& deployment() const override { return plan; }

  Status submit(Frame& frame) override {
    std::unique_lock lock(mutex_);
    if (refusal) return *refusal;
    if (waiting_.size() >= capacity) return Error(ErrorCode::kResourceExhausted, "queue full");
    ++executed_[key(frame)];
    ++submitted_;
    last_client = frame.client;
    if (mode_ == Mode::kInline) {
      lock.unlock();
      finish(frame, {});
      return {};
    }
    waiting_.push_back(&frame);
    changed_.notify_one();
    return {};
  }

  void cancel(Frame& frame) override {
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::find(waiting_.begin(), waiting_.end(), &frame);
      if (at == waiting_.end()) return;
      waiting_.erase(at);
    }
    finish(frame, Error(ErrorCode::kCancelled, "taken back"));
  }

  bool ready() const override { return true; }
  std::chrono::milliseconds retry_after() override { return retry; }
  runtime::pipeline::PipelineStatus status() override {
    runtime::pipeline::PipelineStatus up;
    up.ready = true;
    return up;
  }
  void stop(std::chrono::milliseconds) override {}

  /// In mode kManual, completes the oldest waiting frame. Returns false if no frame waits.
  bool complete_one(Status status = {}) {
    Frame* frame = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty()) return false;
      frame = waiting_.front();
      waiting_.pop_front();
    }
    finish(*frame, std::move(status));
    return true;
  }

  std::size_t submitted() const {
    const std::lock_guard lock(mutex_);
    return submitted_;
  }
  /// Returns how many submitted frames had an input that begins with these eight bytes.
  std::size_t executed(std::uint64_t first_bytes) const {
    const std::lock_guard lock(mutex_);
    const auto found = executed_.find(first_bytes);
    return found == executed_.end() ? 0 : found->second;
  }
  std::size_t most_executions() const {
    const std::lock_guard lock(mutex_);
    std::size_t most = 0;
    for (const auto& [input, times] : executed_) most = std::max(most, times);
    return most;
  }

  runtime::plan::Deployment plan;   // must not change once a model uses the pipeline
  std::size_t capacity = SIZE_MAX;  // frames that may wait
  std::optional<Error> refusal;
  std::uint64_t last_client = 0;       // the client of the frame that was submitted last
  std::chrono::milliseconds retry{0};  // the waiting time that retry_after() suggests to refused clients

 private:
  static std::uint64_t key(const Frame& frame) {
    std::uint64_t k = 0;
    std::memcpy(&k, frame.inputs[0].data(), std::min<std::size_t>(8, frame.inputs[0].size()));
    return k;
  }

  static void finish(Frame& frame, Status status) {
    if (status.ok()) {
      Bytes all;
      for (const auto& in : frame.inputs) all.insert(all.end(), in.begin(), in.end());
      for (const auto& out : frame.outputs) compute(all, out);
    }
    frame.status = std::move(status);
    frame.on_complete(frame, frame.context);
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Frame* frame = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop.stop_requested() || !waiting_.empty(); });
        if (waiting_.empty()) continue;
        frame = waiting_.front();
        waiting_.pop_front();
      }
      finish(*frame, {});
    }
  }

  const Mode mode_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Frame*> waiting_;
  std::map<std::uint64_t, std::size_t> executed_;
  std::size_t submitted_ = 0;
  std::jthread thread_;
};

/// A directory with one model, "fake". replace() gives the model a new handle (its number in the protocol), and the old
/// handle becomes stale.
class FakeDirectory final : public server::udp::ModelDirectory {
 public:
  explicit FakeDirectory(FakePipeline& pipeline) : pipeline_(pipeline) { replace(); }

  void replace() {
    const std::lock_guard lock(mutex_);
    handle_ = (++generation_ << 16U) | 1U;
    model_ = *server::udp::ServedModel::make(handle_, pipeline_);
  }
  std::uint32_t handle() const {
    const std::lock_guard lock(mutex_);
    return handle_;
  }

  Outcome by_handle(std::uint32_t handle, std::shared_ptr<server::udp::ServedModel>& out) override {
    const std::lock_guard lock(mutex_);
    if ((handle & 0xFFFFU) != 1) return Outcome::kUnknown;
    if (handle != handle_) return Outcome::kStale;
    out = model_;
    return Outcome::kFound;
  }
  std::shared_ptr<server::udp::ServedModel> by_name(std::string_view name,
                                                    std::string_view version) override {
    const std::lock_guard lock(mutex_);
    return name == "fake" && (version.empty() || version == "1") ? model_ : nullptr;
  }
  bool loading(std::string_view name, std::string_view) override { return name == "coming"; }

 private:
  mutable std::mutex mutex_;
  FakePipeline& pipeline_;
  std::uint32_t generation_ = 0;
  std::uint32_t handle_ = 0;
  std::shared_ptr<server::udp::ServedModel> model_;
};

/// Binds a UDP listener and starts it.
inline Result<std::unique_ptr<server::udp::Listener>> start_listener(
    const server::udp::ListenerOptions& options, server::udp::wire::KeyRing keys,
    server::udp::ModelDirectory& models) {
  auto listener = server::udp::Listener::bind(options, std::move(keys), models);
  if (listener.ok()) (*listener)->serve();
  return listener;
}

/// Records datagrams instead of sending them.
class RecordingSender final : public server::udp::Sender {
 public:
  struct Sent {
    server::udp::Address to;
    Bytes bytes;
  };
  void send(const server::udp::Address& to, std::span<const server::udp::Piece> pieces) override {
    const std::lock_guard lock(mutex_);
    for (const server::udp::Piece& piece : pieces) {
      Bytes bytes(piece.head.begin(), piece.head.end());
      bytes.insert(bytes.end(), piece.payload.begin(), piece.payload.end());
      sent_.push_back({to, std::move(bytes)});
    }
  }
  std::vector<Sent> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sent_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Sent> sent_;
};

}  // namespace millrace::tests
