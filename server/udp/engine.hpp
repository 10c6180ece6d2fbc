// Implements the UDP protocol (README.md) as a state machine that has neither sockets nor threads. Callers pass in
// datagrams and the current time. The engine sends answers through a Sender and submits requests to pipelines.
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
      wire::kDefaultFragmentBytes;  // longest payload of a response fragment, 256 to 65,000
  std::uint32_t max_sessions = 1024;
  std::uint32_t window = 64;         // request ids that a session keeps, 1 to 4,096
  std::uint32_t max_receiving = 16;  // most half-received requests of a session
  std::uint32_t max_requests = 4096;
  std::uint64_t max_buffer_bytes = 256U << 20U;
  std::chrono::microseconds gap{1000};             // silence before the server sends a NACK
  std::chrono::milliseconds receive_timeout{500};  // silence before a half-received request is dropped
  std::chrono::milliseconds default_deadline{1000};
  std::chrono::milliseconds max_deadline{60000};
  std::chrono::seconds session_idle{300};
  std::chrono::seconds cookie_period{64};    // a cookie is valid for one to two periods
  Clock::time_point (*now)() = &Clock::now;  // clock that times completed requests
};

/// Only the listener's thread may call these functions, unless a comment says otherwise. Requests in flight point to
/// the engine, so it may be destroyed only when in_flight() is 0.
class Engine {
 public:
  /// `keys` must not be null. `models`, `sender` and `counters` must outlive the engine.
  Engine(const EngineOptions& options, std::shared_ptr<const wire::KeyRing> keys, ModelDirectory& models,
         Sender& sender, Counters& counters);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Processes one datagram. A request that exceeds a limit of the options is answered with BUSY.
  void receive(std::span<const std::byte> datagram, const Address& from, Clock::time_point now);

  /// Requires datagrams to be signed with one of these keys from now on. Answers to earlier requests are signed with
  /// the keys of those requests.
  void use_keys(std::shared_ptr<const wire::KeyRing> keys) { keys_ = std::move(keys); }

  /// Does the work that is due by `now`: sends NACKs, drops half-received requests, closes idle sessions and releases
  /// models. Must be called at next_tick() at the latest; calling it earlier is harmless.
  void tick(Clock::time_point now);
  Clock::time_point next_tick() const { return next_tick_; }

  /// From now on, answers new requests with ERR unavailable. Half-received requests go on. Any thread may call it.
  void drain() { draining_.store(true, std::memory_order_relaxed); }

  /// Cancels the requests that wait in a pipeline's queue. Requests that already run on cards complete.
  void cancel_waiting();

  /// Returns the number of requests in pipelines. Any thread may call it.
  std::uint32_t in_flight() const { return in_flight_.load(std::memory_order_acquire); }
  bool is_receiving() const { return !receiving_.empty(); }
  std::size_t receiving() const { return receiving_.size(); }  // takes linear time
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

  /// A cookie proves that a client receives datagrams at its address. The server stores nothing for a cookie.
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
  wire::KeyRing cookie_secret_;  // each engine has its own random secret
  std::uint64_t epoch_ = 0;

  std::vector<std::unique_ptr<Request>> requests_;
  std::uint64_t buffer_bytes_ = 0;  // total size of all requests' buffers
  std::unordered_map<SessionKey, std::unique_ptr<Session>, SessionKeyHash> sessions_;
  RequestList free_, receiving_, kept_;  // kept_: answered requests, the oldest first
  Clock::time_point next_tick_;
  Clock::time_point next_housekeeping_;

  std::atomic<bool> draining_{false};
  std::atomic<std::uint32_t> in_flight_{0};
  std::atomic<Request*> done_{nullptr};  // stack of completed requests, which collect() empties
};

}  // namespace millrace::server::udp
