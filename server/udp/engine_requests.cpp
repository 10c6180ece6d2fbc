// Handles a request from its first fragment until its answer is discarded.
#include <algorithm>
#include <cassert>
#include <limits>

#include "server/udp/engine.hpp"

namespace millrace::server::udp {
namespace {

constexpr unsigned kMaxAsks = 3;
constexpr std::chrono::milliseconds kLeastRetry{1}, kMostRetry{60'000};  // bounds of a BUSY's delay

constexpr std::string_view kReplaced = "this version was replaced: look the model up again with HELLO";

std::uint32_t microseconds(std::chrono::nanoseconds time) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(us, 0, std::numeric_limits<std::uint32_t>::max()));
}

wire::ErrCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kDeadlineExceeded:
      return wire::ErrCode::kDeadline;
    case ErrorCode::kUnavailable:
    case ErrorCode::kCancelled:
    case ErrorCode::kEnvironment:
      return wire::ErrCode::kUnavailable;
    case ErrorCode::kNotFound:  // the named version was replaced while the request waited
      return wire::ErrCode::kGeneration;
    default:
      return wire::ErrCode::kInternal;
  }
}

std::string_view message_of(wire::ErrCode code) {
  switch (code) {
    case wire::ErrCode::kDeadline:
      return "the deadline passed";
    case wire::ErrCode::kUnavailable:
      return "the model cannot answer now (a card is lost, or the server stops); try again";
    case wire::ErrCode::kGeneration:
      return kReplaced;
    case wire::ErrCode::kConflict:
      return "two fragments of this request contradict each other";
    case wire::ErrCode::kStale:
      return "the response is no longer kept";
    default:
      return "the server failed to compute this request";
  }
}

}  // namespace

// The hot path continues here.

void Engine::answer_new(const Arrival& a, Session& session, Slot& slot) {
  if (draining_.load(std::memory_order_relaxed))
    return refuse(a, wire::ErrCode::kUnavailable, "the server is stopping");
  const wire::Header& h = a.datagram.header;
  std::shared_ptr<ServedModel> model;
  switch (models_.by_handle(h.model, model)) {
    case ModelDirectory::Outcome::kFound:
      break;
    case ModelDirectory::Outcome::kStale:
      return refuse(a, wire::ErrCode::kGeneration, kReplaced);
    case ModelDirectory::Outcome::kUnknown:
      return refuse(a, wire::ErrCode::kUnknownModel, "no model has this handle");
  }
  wire::Layout response;
  if (h.total_len != model->input_bytes)
    return refuse(a, wire::ErrCode::kSize, "total_len is not the model's input_bytes");
  if (!wire::make_layout(model->output_bytes, session.fragment_bytes, response))
    return refuse(a, wire::ErrCode::kSize,
                  "the response does not fit into 65,535 fragments: request larger fragments in HELLO");

  wire::Layout layout;
  [[maybe_unused]] const bool sound = wire::layout_of(h, a.datagram.payload.size(), layout);
  assert(sound);  // parse() has refused all other datagrams
  if (Request* r = start(a, session, slot, std::move(model), layout)) add_fragment(a, *r);
}

/// Returns the time until the pipeline has computed the waiting frames, like Retry-After over HTTP. For kReceiving,
/// returns the shortest delay, because half-received requests wait for their clients, not for the pipeline.
std::uint32_t Engine::retry_after_us(const ServedModel& model, wire::BusyReason reason) const {
  const bool receiving = reason == wire::BusyReason::kReceiving;
  const std::chrono::microseconds wait(receiving ? std::chrono::milliseconds(0)
                                                 : model.pipeline.retry_after());
  return microseconds(std::clamp<std::chrono::nanoseconds>(wait, kLeastRetry, kMostRetry));
}

/// Returns a request that is in no list and has buffers for the model. If a limit is reached, discards the oldest kept
/// answer, or returns null if no answer is kept.
Request* Engine::take_request(const ServedModel& model) {
  while (true) {
    if (free_.empty() && requests_.size() < options_.max_requests)
      free_.push_back(*requests_.emplace_back(std::make_unique<Request>()));
    if (!free_.empty() && reserve_buffers(free_.back(), model)) {
      Request& r = free_.back();
      r.unlink();
      return &r;
    }
    if (kept_.empty()) return nullptr;
    counters_.count(Event::kEvicted);
    end(kept_.front(), wire::ErrCode::kStale);
  }
}

/// Allocates a free request's buffers for the model. Returns false if all buffers together would exceed the limit.
bool Engine::reserve_buffers(Request& r, const ServedModel& model) {
  const std::size_t after = std::max<std::size_t>(r.input.size(), model.input_bytes) +
                            std::max<std::size_t>(r.output.size(), model.output_bytes);
  if (buffer_bytes_ - r.buffer_bytes() + after > options_.max_buffer_bytes) {
    // Release the buffers of free requests before a kept answer is discarded.
    for (Request& idle : free_) {
      buffer_bytes_ -= idle.buffer_bytes();
      idle.input = std::vector<std::byte>();
      idle.output = std::vector<std::byte>();
    }
    if (buffer_bytes_ + model.input_bytes + model.output_bytes > options_.max_buffer_bytes) return false;
  }
  buffer_bytes_ -= r.buffer_bytes();
  if (r.input.size() < model.input_bytes) r.input = std::vector<std::byte>(model.input_bytes);
  if (r.output.size() < model.output_bytes) r.output = std::vector<std::byte>(model.output_bytes);
  buffer_bytes_ += r.buffer_bytes();
  return true;
}

/// Starts to receive a request, and records it in its slot of the session's window. Answers BUSY if a limit is reached.
Request* Engine::start(const Arrival& a, Session& session, Slot& slot, std::shared_ptr<ServedModel> model,
                       const wire::Layout& layout) {
  const auto busy = [&](wire::BusyReason reason) -> Request* {
    model->refused(ErrorCode::kResourceExhausted);
    if (a.first())
      answers_.busy(a.peer, a.id(), reason, retry_after_us(*model, reason));
    else
      counters_.count(Drop::kUnasked);
    return nullptr;
  };
  if (layout.count > 1 && session.receiving >= options_.max_receiving)
    return busy(wire::BusyReason::kReceiving);
  if (!release(slot)) return busy(wire::BusyReason::kWindow);
  Request* r = take_request(*model);
  if (r == nullptr) return busy(wire::BusyReason::kMemory);
  r->assembly.start(layout, std::span(r->input.data(), model->input_bytes));

  session.window.take(slot, a.id(), r);
  r->state = Request::State::kReceiving;
  r->engine = this;
  r->session = &session;
  r->peer = a.peer;
  r->keys = keys_;
  r->id = a.id();
  r->fragment_bytes = session.fragment_bytes;
  r->handle = model->handle;
  r->output_bytes = model->output_bytes;
  r->error.reset();
  const std::uint32_t asked = a.datagram.header.time_us;
  const std::chrono::microseconds wanted =
      asked == 0 ? std::chrono::microseconds(options_.default_deadline) : std::chrono::microseconds(asked);
  r->frame.deadline = a.now + std::min<std::chrono::microseconds>(wanted, options_.max_deadline);
  r->model = std::move(model);
  r->asks = 0;
  r->ask_interval = options_.gap;
  receiving_.push_back(*r);
  ++session.receiving;
  return r;
}

void Engine::add_fragment(const Arrival& a, Request& r) {
  wire::Layout layout;
  if (!wire::layout_of(a.datagram.header, a.datagram.payload.size(), layout) ||
      a.datagram.header.model != r.handle)
    return reject(r, wire::ErrCode::kConflict);
  switch (r.assembly.add(layout, a.datagram.header.frag_index, a.datagram.payload)) {
    case wire::Assembly::Outcome::kConflict:
      return reject(r, wire::ErrCode::kConflict);
    case wire::Assembly::Outcome::kComplete:
      return submit(r, a.now);
    case wire::Assembly::Outcome::kDuplicate:
      if (!a.first()) return;
      r.asks = 0;
      r.ask_interval = options_.gap;
      return ask(r, a.now);
    case wire::Assembly::Outcome::kAdded:
      break;
  }
  r.asks = 0;
  r.ask_interval = options_.gap;
  r.next_ask = a.now + r.ask_interval;
  r.expires = a.now + options_.receive_timeout;
  next_tick_ = std::min(next_tick_, r.next_ask);
  if (r.assembly.wants_more()) ask(r, a.now);
}

void Engine::submit(Request& r, Clock::time_point now) {
  --r.session->receiving;
  r.unlink();
  r.state = Request::State::kFree;
  const ServedModel& model = *r.model;
  if (now >= r.frame.deadline) return reject(r, wire::ErrCode::kDeadline);
  r.whole = now;
  r.frame.inputs.clear();
  r.frame.outputs.clear();
  const std::byte* in = r.input.data();
  for (const std::uint32_t bytes : model.inputs) {
    r.frame.inputs.emplace_back(in, bytes);
    in += bytes;
  }
  std::byte* out = r.output.data();
  for (const std::uint32_t bytes : model.outputs) {
    r.frame.outputs.emplace_back(out, bytes);
    out += bytes;
  }
  r.frame.status = Status();
  r.frame.on_complete = &Engine::completed;
  r.frame.context = &r;
  r.frame.client = share_of(r.peer.address, r.peer.client_id);
  r.state = Request::State::kInFlight;
  ++r.session->in_flight;
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  model.begun();
  const Status taken = model.submit(r.frame, r.passage);
  if (taken.ok()) return counters_.count(Event::kRequests);  // `r` may already have been answered
  const ErrorCode refusal = taken.error().code();
  in_flight_.fetch_sub(1, std::memory_order_release);
  --r.session->in_flight;
  model.not_taken(r.passage, refusal);
  r.passage = {};
  if (refusal != ErrorCode::kResourceExhausted) return give_up(r, code_of(refusal));
  answers_.busy(r.peer, r.id, wire::BusyReason::kQueue, retry_after_us(model, wire::BusyReason::kQueue));
  end(r, wire::kNoError);
}

void Engine::completed(runtime::pipeline::Frame&, void* context) {
  Request& r = *static_cast<Request*>(context);
  r.engine->finish(r);
}

/// Stores the answer. Runs on a pipeline thread, which owns the request until it is pushed onto done_.
void Engine::finish(Request& r) {
  const std::chrono::nanoseconds time = options_.now() - r.whole;
  if (r.frame.status.ok()) {
    r.time_us = microseconds(time);
    answers_.response(r);
    counters_.count(Event::kResponses);
    r.model->succeeded(r.passage, r.frame.times, time);
  } else if (r.frame.status.error().code() ==
             ErrorCode::kResourceExhausted) {  // a more urgent frame took its place
    r.error = wire::kNoError;
    answers_.busy(r.peer, r.id, wire::BusyReason::kQueue, retry_after_us(*r.model, wire::BusyReason::kQueue));
    r.model->failed(r.passage, ErrorCode::kResourceExhausted, time);
  } else {
    const wire::ErrCode code = code_of(r.frame.status.error().code());
    r.error = code;
    answers_.error(r.peer, r.id, code, message_of(code));
    counters_.count(Event::kFailures);
    r.model->failed(r.passage, r.frame.status.error().code(), time);
  }
  r.next_done = done_.load(std::memory_order_relaxed);
  while (
      !done_.compare_exchange_weak(r.next_done, &r, std::memory_order_release, std::memory_order_relaxed)) {
  }
  in_flight_.fetch_sub(1, std::memory_order_release);
}

// The hot path ends here.

/// Takes completed requests back from the pipeline threads.
void Engine::collect() {
  if (done_.load(std::memory_order_relaxed) == nullptr) return;
  Request* r = done_.exchange(nullptr, std::memory_order_acquire);
  while (r != nullptr) {
    Request* const next = r->next_done;
    --r->session->in_flight;
    r->state = Request::State::kCompleted;
    r->model.reset();  // a pipeline's own thread must not destroy the pipeline
    r->passage = {};
    if (r->error)
      end(*r, *r->error);
    else
      kept_.push_back(*r);
    r = next;
  }
}

void Engine::answer_known(const Arrival& a, Slot& slot) {
  if (slot.request != nullptr && slot.request->state == Request::State::kReceiving) {
    sign_as_asked(*slot.request, a);
    return add_fragment(a, *slot.request);
  }
  if (!a.first()) return counters_.count(Drop::kUnasked);
  if (slot.request == nullptr) {
    if (slot.error != wire::ErrCode::kStale) counters_.count(Event::kRepeated);
    return answers_.error(a.peer, a.id(), slot.error, message_of(slot.error));
  }
  if (slot.request->state == Request::State::kInFlight) return answers_.ack(a.peer, a.id());
  counters_.count(Event::kRepeated);
  sign_as_asked(*slot.request, a);
  answers_.response(*slot.request);
}

/// Signs further answers to the request with the client's current keys. No pipeline may hold the request.
void Engine::sign_as_asked(Request& r, const Arrival& a) {
  if (r.peer.keys == a.peer.keys) return;
  r.keys = keys_;
  r.peer.keys = keys_.get();
}

/// Asks for missing fragments. After kMaxAsks requests without a new fragment, waits for the client to send.
void Engine::ask(Request& r, Clock::time_point now) {
  r.next_ask = r.expires;
  if (r.asks >= kMaxAsks) return;
  wire::Nack nack;
  if (!r.assembly.ask(nack)) return;
  answers_.nack(r.peer, r.id, nack);
  ++r.asks;
  r.next_ask = now + r.ask_interval;
  r.ask_interval *= 2;
  next_tick_ = std::min(next_tick_, r.next_ask);
}

/// Ends a half-received request like give_up(), and counts it as refused by the model.
void Engine::reject(Request& r, wire::ErrCode code) {
  r.model->refused(code == wire::ErrCode::kDeadline ? ErrorCode::kDeadlineExceeded
                                                    : ErrorCode::kInvalidInput);
  give_up(r, code);
}

/// Ends a request that is not in a pipeline and answers it with an ERR.
void Engine::give_up(Request& r, wire::ErrCode code) {
  answers_.error(r.peer, r.id, code, message_of(code));
  end(r, code);
}

/// Ends a request that is not in a pipeline. The session's window keeps `error` and sends it again if the client
/// repeats the request. With kNoError, the request counts as never seen.
void Engine::end(Request& r, wire::ErrCode error) {
  if (r.state == Request::State::kReceiving) --r.session->receiving;
  Slot& slot = r.session->window.slot(r.id);
  slot.request = nullptr;
  slot.error = error;
  r.state = Request::State::kFree;
  r.model.reset();
  r.keys.reset();
  r.session = nullptr;
  if (r.is_linked()) r.unlink();
  free_.push_back(r);
}

/// Frees a slot of the window for another request id. Returns false if the slot's request is still being computed.
bool Engine::release(Slot& slot) {
  if (slot.request == nullptr) return true;
  if (slot.request->state == Request::State::kInFlight) return false;
  if (slot.request->state == Request::State::kReceiving) counters_.count(Event::kForgotten);
  end(*slot.request, wire::ErrCode::kStale);
  return true;
}

}  // namespace millrace::server::udp
