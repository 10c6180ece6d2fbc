// The protocol of README.md as a state machine without sockets or threads of its own. Datagrams and the time
// go in, answers go out through a Sender, requests go to pipelines.
//
//   receive() -> tag -> session -> window -> assembly -> Pipeline::submit() -> completed() on a pipeline
//   thread -> RSP
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "server/udp/answers.hpp"
#include "server/udp/counters.hpp"
#include "server/udp/models.hpp"
#include "server/udp/request.hpp"

namespace millrace::server::udp {

struct EngineOptions {
  std::uint32_t fragment_bytes =
      wire::kDefaultFragmentBytes;  // longest payload of RSP fragments, 256 to 65,000
  std::uint32_t max_sessions = 1024;
  std::uint32_t window = 64;         // requests of a session, 1 to 4,096
  std::uint32_t max_receiving = 16;  // half-received requests of a session
  std::uint32_t max_requests = 4096;
  std::uint64_t max_buffer_bytes = 256U << 20U;
  std::chrono::microseconds gap{1000};             // silence before a NACK
  std::chrono::milliseconds receive_timeout{500};  // silence before a half-received request is dropped
  std::chrono::milliseconds default_deadline{1000};
  std::chrono::milliseconds max_deadline{60000};
  std::chrono::seconds session_idle{300};
  std::chrono::seconds cookie_period{64};    // a cookie is valid for one to two periods
  Clock::time_point (*now)() = &Clock::now;  // for completions
};

/// Only the listener's thread calls functions, unless a comment says otherwise. Requests in flight point into
/// the engine, so it may be destroyed only when in_flight() is 0.
class Engine {
 public:
  /// `keys` is not null; `models`, `sender` and `counters` must outlive the engine.
  Engine(const EngineOptions& options, std::shared_ptr<const wire::KeyRing> keys, ModelDirectory& models,
         Sender& sender, Counters& counters);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Takes one datagram. A request beyond a bound of the options is turned away with BUSY.
  void receive(std::span<const std::byte> datagram, const Address& from, Clock::time_point now);

  /// From now on datagrams must be signed with one of these keys. Answers to earlier requests are signed with
  /// the keys of those requests.
  void use_keys(std::shared_ptr<const wire::KeyRing> keys) { keys_ = std::move(keys); }

  /// Does what is due: sends NACKs, drops half-received requests, closes idle sessions, releases models. Must
  /// be called at next_tick() at the latest; earlier calls are harmless.
  void tick(Clock::time_point now);
  Clock::time_point next_tick() const { return next_tick_; }

  /// From now on new requests get ERR unavailable; half-received ones may still be completed. Any thread.
  void drain() { draining_.store(true, std::memory_order_relaxed); }

  /// Cancels the requests that wait in a pipeline's queue. Those on cards complete.
  void cancel_waiting();

  /// Requests in pipelines. Any thread.
  std::uint32_t in_flight() const { return in_flight_.load(std::memory_order_acquire); }
  bool is_receiving() const { return !receiving_.empty(); }
  std::size_t receiving() const { return receiving_.size(); }  // linear
  std::size_t sessions() const { return sessions_.size(); }
  std::uint64_t buffer_bytes() const { return buffer_bytes_; }
  std::uint64_t epoch() const { return epoch_; }

 private:
  using Slot = Window::Slot;
  struct Arrival {
    const wire::Datagram& datagram;
    Peer peer;
    std::size_t bytes;
    Clock::time_point now;
    std::uint64_t id() const { return datagram.header.request_id; }
    bool first() const { return datagram.header.frag_index == 0; }
  };

  /// Cookies prove that a client receives datagrams at its address. The server keeps no state for them.
  wire::Cookie cookie(const Arrival& a, Clock::time_point time) const;
  bool has_valid_cookie(const Arrival& a, const wire::Cookie& cookie) const;

  void on_hello(const Arrival& a);
  void on_request(const Arrival& a);
  void on_nack(const Arrival& a);
  void on_ping(const Arrival& a);

  void answer_known(const Arrival& a, Slot& slot);
  void answer_new(const Arrival& a, Session& session, Slot& slot);
  std::uint32_t retry_after_us(const ServedModel& model, wire::BusyReason reason) const;
  Request* start(const Arrival& a, Session& session, Slot& slot, std::shared_ptr<ServedModel> model,
                 const wire::Layout& layout);
  Request* take_request(const ServedModel& model);
  bool reserve_buffers(Request& request, const ServedModel& model);
  void sign_as_asked(Request& request, const Arrival& a);
  void add_fragment(const Arrival& a, Request& request);
  void ask(Request& request, Clock::time_point now);
  void submit(Request& request, Clock::time_point now);

  Session* find(const Arrival& a);
  Session* open(const Arrival& a, std::uint16_t fragment_bytes);
  bool make_place(Clock::time_point now);
  void close(Session& session);

  bool release(Slot& slot);
  void reject(Request& request, wire::ErrCode code);
  void give_up(Request& request, wire::ErrCode code);
  void end(Request& request, wire::ErrCode error);
  void refuse(const Arrival& a, wire::ErrCode code, std::string_view message);
  void collect();
  void expire_sessions(Clock::time_point now);

  static void completed(runtime::pipeline::Frame& frame, void* context);
  void finish(Request& request);

  const EngineOptions options_;
  std::shared_ptr<const wire::KeyRing> keys_;
  ModelDirectory& models_;
  Counters& counters_;
  Answers answers_;
  wire::KeyRing cookie_secret_;  // another one in each engine
  std::uint64_t epoch_ = 0;

  std::vector<std::unique_ptr<Request>> requests_;
  std::uint64_t buffer_bytes_ = 0;  // of all requests
  std::unordered_map<SessionKey, std::unique_ptr<Session>, SessionKeyHash> sessions_;
  RequestList free_, receiving_, kept_;  // kept_: answered, the oldest first
  Clock::time_point next_tick_;
  Clock::time_point next_housekeeping_;

  std::atomic<bool> draining_{false};
  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<Request*> done_{nullptr};  // stack of completed requests, for collect()
};

}  // namespace millrace::server::udp
