#include "server/udp/engine.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "server/udp/wire/bytes.hpp"

namespace millrace::server::udp {
namespace {

constexpr std::chrono::milliseconds kHousekeeping{100};

}  // namespace

Engine::Engine(const EngineOptions& options, std::shared_ptr<const wire::KeyRing> keys,
               ModelDirectory& models, Sender& sender, Counters& counters)
    : options_(options),
      keys_(std::move(keys)),
      models_(models),
      counters_(counters),
      answers_(sender, counters) {
  std::array<std::byte, 8> epoch;
  wire::random_bytes(epoch);
  epoch_ = wire::load<std::uint64_t>(epoch, 0);
  std::array<std::byte, 32> secret;
  wire::random_bytes(secret);
  [[maybe_unused]] const Status added = cookie_secret_.add(1, secret);
  assert(added.ok());
}

Engine::~Engine() {
  assert(in_flight() == 0);
}

// The hot path begins here: one datagram of an existing session (of a client that has proved its address). It allocates
// nothing until the answer is sent.

void Engine::receive(std::span<const std::byte> bytes, const Address& from, Clock::time_point now) {
  counters_.count(Event::kDatagramsReceived);
  counters_.count(Event::kBytesReceived, bytes.size());
  wire::Datagram datagram;
  if (const wire::Refusal refusal = wire::parse(bytes, datagram); refusal != wire::Refusal::kNone)
    return counters_.count(refusal);
  const wire::Header& h = datagram.header;
  if (h.from_server) return counters_.count(Drop::kUnexpected);
  if (keys_->empty() ? h.tagged() : !keys_->verify(datagram)) return counters_.count(Drop::kTag);

  collect();
  const Arrival a{datagram, Peer{from, h.client_id, h.key_id, keys_.get()}, bytes.size(), now};
  switch (h.type) {
    case wire::Type::kReq:
      return on_request(a);
    case wire::Type::kNack:
      return on_nack(a);
    case wire::Type::kHello:
      return on_hello(a);
    case wire::Type::kPing:
      return on_ping(a);
    default:
      return counters_.count(Drop::kUnexpected);
  }
}

Session* Engine::find(const Arrival& a) {
  const auto found = sessions_.find(SessionKey{a.peer.address, a.peer.client_id, a.peer.key_id});
  if (found == sessions_.end()) return nullptr;
  found->second->last_seen = a.now;
  return found->second.get();
}

void Engine::on_request(const Arrival& a) {
  Session* session = find(a);
  if (session == nullptr) {
    if (!a.first()) return counters_.count(Drop::kUnasked);
    return answers_.error(a.peer, a.id(), wire::ErrCode::kNoSession, "no session: send HELLO", a.bytes);
  }
  if (session->window.stale(a.id()))
    return refuse(a, wire::ErrCode::kStale, "request_id is older than the window");
  Slot& slot = session->window.slot(a.id());
  if (slot.id == a.id() && (slot.request != nullptr || slot.error != wire::kNoError))
    return answer_known(a, slot);
  answer_new(a, *session, slot);
}

// The hot path continues in engine_requests.cpp.

void Engine::refuse(const Arrival& a, wire::ErrCode code, std::string_view message) {
  if (!a.first()) return counters_.count(Drop::kUnasked);
  answers_.error(a.peer, a.id(), code, message);
}

void Engine::on_nack(const Arrival& a) {
  wire::Nack nack;
  if (!decode(a.datagram.payload, nack)) return counters_.count(Drop::kBody);
  counters_.count(Event::kNacksReceived);
  Session* session = find(a);
  if (session == nullptr)
    return answers_.error(a.peer, a.id(), wire::ErrCode::kNoSession, "no session: send HELLO", a.bytes);
  Slot& slot = session->window.slot(a.id());
  if (session->window.stale(a.id()) || slot.id != a.id() || slot.error == wire::ErrCode::kStale)
    return answers_.error(a.peer, a.id(), wire::ErrCode::kStale, "the response is no longer kept");
  if (slot.request != nullptr && slot.request->state == Request::State::kCompleted) {
    counters_.count(Event::kRepeated);
    sign_as_asked(*slot.request, a);
    return answers_.response(*slot.request, &nack);
  }
  // There is no response to send again. The client learns the request's state by repeating fragment 0 of the request.
  counters_.count(Drop::kUnasked);
}

void Engine::on_ping(const Arrival& a) {
  if (a.datagram.payload.size() < wire::kMinPingBytes) return counters_.count(Drop::kBody);
  const bool known = find(a) != nullptr;
  answers_.pong(a.peer, a.id(), wire::Pong{epoch_, known, draining_.load(std::memory_order_relaxed)},
                a.datagram.payload, a.bytes);
}

wire::Cookie Engine::cookie(const Arrival& a, Clock::time_point time) const {
  const auto period = static_cast<std::uint64_t>(time.time_since_epoch() / options_.cookie_period);
  const std::array<std::uint64_t, 2> said = {a.peer.client_id, period};
  wire::Cookie cookie;
  cookie_secret_.sign(1, std::as_bytes(std::span(&a.peer.address.system, 1)), std::as_bytes(std::span(said)),
                      cookie);
  return cookie;
}

bool Engine::has_valid_cookie(const Arrival& a, const wire::Cookie& given) const {
  for (const Clock::time_point time : {a.now, a.now - options_.cookie_period}) {
    const wire::Cookie right = cookie(a, time);
    if (CRYPTO_memcmp(right.data(), given.data(), right.size()) == 0) return true;
  }
  return false;
}

void Engine::on_hello(const Arrival& a) {
  wire::Hello hello;
  if (!decode(a.datagram.payload, hello)) return counters_.count(Drop::kBody);
  wire::CookieReply reply;
  reply.cookie = cookie(a, a.now);
  reply.epoch = epoch_;
  reply.fragment_bytes =
      static_cast<std::uint16_t>(std::min<std::uint32_t>(hello.fragment_bytes, options_.fragment_bytes));
  reply.window = static_cast<std::uint16_t>(options_.window);
  if (!has_valid_cookie(a, hello.cookie)) return answers_.cookie(a.peer, a.id(), reply, a.bytes);

  Session* session = find(a);
  if (session == nullptr) session = open(a, reply.fragment_bytes);
  if (session == nullptr) {
    const auto retry = std::chrono::microseconds(std::chrono::seconds(1)).count();
    return answers_.busy(a.peer, a.id(), wire::BusyReason::kSessions, static_cast<std::uint32_t>(retry));
  }
  session->fragment_bytes = reply.fragment_bytes;
  reply.state = wire::CookieState::kOpen;
  if (!hello.name.empty()) {
    if (const std::shared_ptr<ServedModel> model = models_.by_name(hello.name, hello.version)) {
      reply.model = model->handle;
      reply.input_bytes = model->input_bytes;
      reply.output_bytes = model->output_bytes;
      if (wire::kCookieBytes + model->signature.size() <= reply.fragment_bytes)
        reply.signature = model->signature;
      return answers_.cookie(a.peer, a.id(), reply);
    }
    reply.model_error =
        static_cast<std::uint16_t>(models_.loading(hello.name, hello.version) ? wire::ErrCode::kUnavailable
                                                                              : wire::ErrCode::kUnknownModel);
  }
  answers_.cookie(a.peer, a.id(), reply);
}

Session* Engine::open(const Arrival& a, std::uint16_t fragment_bytes) {
  if (sessions_.size() >= options_.max_sessions && !make_place(a.now)) return nullptr;
  const SessionKey key{a.peer.address, a.peer.client_id, a.peer.key_id};
  auto session = std::make_unique<Session>(key, options_.window, a.id(), fragment_bytes);
  session->last_seen = a.now;
  Session* const opened = sessions_.emplace(key, std::move(session)).first->second.get();
  counters_.count(Event::kSessionsOpened);
  return opened;
}

/// Closes the session that has been idle longest, if it has been idle for longer than a cookie is valid. If a session
/// were closed earlier, a delayed HELLO with a valid cookie could open it again with an empty window, and requests
/// would be computed twice.
bool Engine::make_place(Clock::time_point now) {
  Session* longest = nullptr;
  for (const auto& [key, session] : sessions_)
    if (session->in_flight == 0 && (longest == nullptr || session->last_seen < longest->last_seen))
      longest = session.get();
  if (longest == nullptr || now - longest->last_seen <= 2 * options_.cookie_period) return false;
  close(*longest);
  return true;
}

void Engine::close(Session& session) {
  for (Slot& slot : session.window.slots()) {
    [[maybe_unused]] const bool released = release(slot);
    assert(released);
  }
  counters_.count(Event::kSessionsClosed);
  const SessionKey key = session.key;
  sessions_.erase(key);
}

void Engine::expire_sessions(Clock::time_point now) {
  std::vector<Session*> idle;
  for (const auto& [key, session] : sessions_)
    if (session->in_flight == 0 && now - session->last_seen > options_.session_idle)
      idle.push_back(session.get());
  for (Session* session : idle) close(*session);
}

void Engine::tick(Clock::time_point now) {
  collect();
  if (now >= next_housekeeping_) {
    next_housekeeping_ = now + kHousekeeping;
    models_.refresh();
    expire_sessions(now);
  }
  next_tick_ = next_housekeeping_;
  for (auto next = receiving_.begin(); next != receiving_.end();) {
    Request& r = *next++;
    if (now >= r.frame.deadline) {
      reject(r, wire::ErrCode::kDeadline);
      continue;
    }
    if (now >= r.expires) {
      counters_.count(Event::kForgotten);
      end(r, wire::kNoError);
      continue;
    }
    if (now >= r.next_ask) ask(r, now);
    next_tick_ = std::min({next_tick_, r.next_ask, r.expires, r.frame.deadline});
  }
}

void Engine::cancel_waiting() {
  for (const auto& r : requests_)
    if (r->state == Request::State::kInFlight) r->model->pipeline.cancel(r->frame);
}

}  // namespace millrace::server::udp
