#include "server/udp/listener.hpp"

#include <pthread.h>

#include "runtime/base/log.hpp"

namespace millrace::server::udp {
namespace {

Status check_engine(const EngineOptions& o) {
  const auto range = [](const char* what, std::uint64_t value, std::uint64_t low,
                        std::uint64_t high) -> Status {
    if (value >= low && value <= high) return {};
    return Error(ErrorCode::kInvalidInput, std::string("UDP ") + what + " is " + std::to_string(value) +
                                               "; it must be " + std::to_string(low) + " to " +
                                               std::to_string(high));
  };
  MILLRACE_TRY(range("fragment_bytes", o.fragment_bytes, wire::kMinFragmentBytes, wire::kMaxFragmentBytes));
  MILLRACE_TRY(range("max_sessions", o.max_sessions, 1, 1U << 20U));
  MILLRACE_TRY(range("window", o.window, 1, 4096));
  MILLRACE_TRY(range("max_receiving", o.max_receiving, 1, 4096));
  return range("max_requests", o.max_requests, 1, 1U << 20U);
}

}  // namespace

Status Listener::check(const ListenerOptions& options, const wire::KeyRing& keys) {
  MILLRACE_TRY(check_engine(options.engine));
  MILLRACE_ASSIGN(const Endpoint wanted, Socket::resolve(options.host, options.port));
  if (wanted.loopback || !keys.empty() || options.allow_unauthenticated) return {};
  return Error(ErrorCode::kInvalidInput,
               "UDP address " + wanted.text + " can be reached by other machines and there are no keys: " +
                   "configure keys, use 127.0.0.1, or allow unauthenticated clients expressly");
}

Result<std::unique_ptr<Listener>> Listener::bind(const ListenerOptions& options, wire::KeyRing keys,
                                                 ModelDirectory& models) {
  MILLRACE_TRY(check(options, keys));
  std::unique_ptr<Listener> made(new Listener(options, std::move(keys)));
  MILLRACE_ASSIGN(made->socket_,
                  Socket::open(options.host, options.port, options.receive_buffer_bytes, made->counters_));
  made->engine_ =
      std::make_unique<Engine>(options.engine, made->keys_, models, *made->socket_, made->counters_);
  return made;
}

Result<std::unique_ptr<Listener>> Listener::start(const ListenerOptions& options, wire::KeyRing keys,
                                                  ModelDirectory& models) {
  MILLRACE_ASSIGN(auto listener, bind(options, std::move(keys), models));
  listener->serve();
  return listener;
}

void Listener::serve() {
  const std::lock_guard lock(stop_mutex_);
  thread_ = std::thread([this] { run(); });
}

Status Listener::replace_keys(wire::KeyRing keys) {
  MILLRACE_TRY(check(options_, keys));
  const std::lock_guard lock(keys_mutex_);
  keys_ = std::make_shared<const wire::KeyRing>(std::move(keys));
  new_keys_.store(true, std::memory_order_release);
  return {};
}

bool Listener::has_keys(const wire::KeyRing& keys) const {
  const std::lock_guard lock(keys_mutex_);
  return keys_->same_keys(keys);
}

bool Listener::stop(std::chrono::milliseconds bound) {
  const std::lock_guard lock(stop_mutex_);
  if (!thread_.joinable()) return drained_;
  engine_->drain();
  const Clock::time_point limit = Clock::now() + bound;
  while (!idle() && Clock::now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  drained_ = idle();
  stopping_.store(true, std::memory_order_relaxed);
  thread_.join();
  engine_->cancel_waiting();
  while (engine_->in_flight() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return drained_;
}

void Listener::run() {
  pthread_setname_np(pthread_self(), "millrace-udp");
  set_affinity();
  Clock::time_point now = Clock::now();
  bool timed = false;  // `now` is the time of the last datagram
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (new_keys_.load(std::memory_order_acquire)) take_keys();
    if (!std::exchange(timed, false)) now = Clock::now();
    if (now >= engine_->next_tick()) engine_->tick(now);
    // Without half-received requests nothing is due before the socket's own timeout.
    const auto limit =
        engine_->receiving() == 0 ? std::chrono::nanoseconds(Socket::kPoll) : engine_->next_tick() - now;
    socket_->receive(limit, engine_->receiving() != 0,
                     [&](std::span<const std::byte> bytes, const Address& from) {
                       if (!std::exchange(timed, true)) now = Clock::now();
                       engine_->receive(bytes, from, now);
                     });
    receiving_.store(engine_->receiving(), std::memory_order_relaxed);
  }
}

void Listener::take_keys() {
  const std::lock_guard lock(keys_mutex_);
  new_keys_.store(false, std::memory_order_relaxed);
  engine_->use_keys(keys_);
}

void Listener::set_affinity() const {
  if (options_.cpu < 0) return;
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<unsigned>(options_.cpu), &cpus);
  if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0)
    log::warning("udp", "the listener's thread could not be pinned to CPU " + std::to_string(options_.cpu));
}

}  // namespace millrace::server::udp
