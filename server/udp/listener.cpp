#include "server/udp/listener.hpp"

#include <pthread.h>

namespace millrace::server::udp {

Status Listener::check(const ListenerOptions& options, const wire::KeyRing& keys) {
  MILLRACE_ASSIGN(const Address wanted, Socket::resolve(options.host, options.port));
  if (wanted.is_loopback() || !keys.empty() || options.allow_unauthenticated) return {};
  return Error(ErrorCode::kInvalidInput,
               "UDP address " + to_string(wanted) +
                   " can be reached by other machines and there are no keys: "
                   "configure keys, use 127.0.0.1, or allow unauthenticated clients explicitly");
}

Result<std::unique_ptr<Listener>> Listener::bind(const ListenerOptions& options, wire::KeyRing keys,
                                                 ModelDirectory& models) {
  MILLRACE_TRY(check(options, keys));
  std::unique_ptr<Listener> made(new Listener(options, std::move(keys)));
  MILLRACE_ASSIGN(made->socket_, Socket::open(options.host, options.port, made->counters_));
  made->engine_ =
      std::make_unique<Engine>(options.engine, made->keys_, models, *made->socket_, made->counters_);
  return made;
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
  Clock::time_point now = Clock::now();
  bool timed = false;  // `now` is the time of the last datagram
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (new_keys_.load(std::memory_order_acquire)) {
      const std::lock_guard lock(keys_mutex_);
      new_keys_.store(false, std::memory_order_relaxed);
      engine_->use_keys(keys_);
    }
    if (!std::exchange(timed, false)) now = Clock::now();
    if (now >= engine_->next_tick()) engine_->tick(now);
    // Unless requests are half-received, nothing is due before the socket's own timeout.
    const auto limit =
        !engine_->is_receiving() ? std::chrono::nanoseconds(Socket::kPoll) : engine_->next_tick() - now;
    socket_->receive(limit, engine_->is_receiving(),
                     [&](std::span<const std::byte> bytes, const Address& from) {
                       if (!std::exchange(timed, true)) now = Clock::now();
                       engine_->receive(bytes, from, now);
                     });
    receiving_.store(engine_->is_receiving(), std::memory_order_relaxed);
  }
}

}  // namespace millrace::server::udp
