#include "server/http/server.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "server/http/connection/connection.hpp"
#include "server/http/connection/listener.hpp"
#include "server/http/limits.hpp"

namespace millrace::server::http {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kCloseBound{1'000};

/// Returns the interval between two checks of deadlines: a quarter of the shortest timeout, within bounds.
milliseconds tick_of(const ServerOptions& options) {
  const milliseconds shortest = std::min({options.idle_timeout, options.header_timeout, options.body_timeout,
                                          options.write_timeout, options.linger});
  return std::clamp(shortest / 4, milliseconds(5), milliseconds(1'000));
}

/// An I/O thread with its connections and the timer that checks their deadlines.
class IoThread {
 public:
  IoThread(ServerState& server, unsigned number)
      : state_(server, number, &context_), timer_(context_), tick_(tick_of(server.options)) {}

  void start() {
    schedule();
    thread_ = std::jthread([this] { context_.run(); });
  }

  net::io_context& context() { return context_; }

  void serve(Listener::Socket socket, Accepted accepted) {
    net::post(context_, [this, socket = std::move(socket), accepted = std::move(accepted)]() mutable {
      serve_connection(std::move(socket), state_, std::move(accepted));
    });
  }

  bool has_answered() const { return answered_.load(std::memory_order_acquire); }
  void ask() {
    answered_.store(false, std::memory_order_relaxed);
    net::post(context_, [this] { answered_.store(true, std::memory_order_release); });
  }

  void dismiss_idle() {
    net::post(context_, [this] { for_each([](Connection& connection) { connection.dismiss(); }); });
  }

  /// Closes every connection of this thread once its current request, if any, is answered.
  void begin_close() {
    net::post(context_, [this] {
      state_.closing = true;
      for_each([](Connection& connection) { connection.close_when_answered(); });
    });
  }

  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    // Run the handlers that pipelines have posted meanwhile: a connection exists until its handler has run.
    context_.restart();
    context_.poll();
  }

 private:
  void schedule() {
    timer_.expires_after(tick_);
    timer_.async_wait([this](error_code error) {
      if (error) return;
      const auto now = Clock::now();
      state_.server.registry.refresh(state_.workspace.view);
      for_each([now](Connection& connection) { connection.check_deadline(now); });
      schedule();
    });
  }

  template <class Function>
  void for_each(Function function) {
    // The list does not change during the loop, because `function` never destroys a connection immediately.
    for (Connection* connection : state_.connections) function(*connection);
  }

  ThreadState state_;  // outlives the context, whose handlers hold the connections
  net::io_context context_{1};
  net::steady_timer timer_;
  const milliseconds tick_;
  std::atomic<bool> answered_{true};
  std::jthread thread_;
};

class BeastServer final : public Server {
 public:
  BeastServer(const ServerOptions& options, Api& api, models::Registry& registry, metrics::Metrics& metrics)
      : api_(api), registry_(registry), state_{options, api, registry, metrics} {
    std::vector<net::io_context*> contexts;
    for (unsigned i = 0; i < std::max(1U, options.io_threads); ++i) {
      threads_.push_back(std::make_unique<IoThread>(state_, i));
      contexts.push_back(&threads_.back()->context());
    }
    for (const ListenAddress& address : state_.options.listen)
      listeners_.push_back(std::make_unique<Listener>(contexts, address, state_.options));
  }
  ~BeastServer() override { stop(milliseconds(0)); }

  Status bind() {
    for (auto& listener : listeners_) MILLRACE_TRY(listener->bind());
    return {};
  }

  Status start() override {
    for (auto& listener : listeners_)
      MILLRACE_TRY(listener->start([this](Listener::Socket socket, std::size_t thread, const Listener& from) {
        admit(std::move(socket), *threads_[thread], from);
      }));
    started_ = true;
    for (auto& thread : threads_) thread->start();
    return {};
  }

  std::vector<Address> addresses() const override {
    std::vector<Address> out;
    for (const auto& listener : listeners_) out.push_back(listener->address());
    return out;
  }
  void give_notice() override {
    api_.give_notice();
    net::post(accepting(), [this] {
      for (auto& listener : listeners_)
        if (listener->passed()) listener->close();
      // Post a second handler. It runs after the handlers of those accepts that have completed already, so their
      // connections are still admitted.
      net::post(accepting(), [this] { accepting_passed_ = false; });
    });
  }
  bool handed_over() const override { return !accepting_passed_ && state_.to_hand_over.load() == 0; }
  void dismiss_idle() override {
    for (auto& thread : threads_) thread->dismiss_idle();
  }
  void begin_drain() override { api_.begin_drain(); }
  bool beat() override {
    if (!std::all_of(threads_.begin(), threads_.end(),
                     [](const auto& thread) { return thread->has_answered(); }))
      return false;
    for (auto& thread : threads_) thread->ask();
    return true;
  }
  bool idle() const override { return state_.answering.load() == 0; }

  void stop(milliseconds bound) override {
    if (std::exchange(stopped_, true) || !started_) return;
    begin_drain();
    const auto end = Clock::now() + bound;
    while (!idle() && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    // Stopping the registry completes every accepted frame, so that every waiting connection gets an answer to send.
    registry_.stop(milliseconds(0));
    net::post(accepting(), [this] {
      for (auto& listener : listeners_) listener->close();
    });
    for (auto& thread : threads_) thread->begin_close();
    const auto close_end = Clock::now() + kCloseBound;
    while (state_.connections.load() > 0 && Clock::now() < close_end)
      std::this_thread::sleep_for(milliseconds(1));
    for (ControlThread* thread : {&state_.control, &state_.scrapes})
      thread->pool.join();  // runs the queued jobs, for which connections wait
    for (auto& thread : threads_) thread->stop();
  }

 private:
  /// Returns the context of the thread that accepts connections for all listeners.
  net::io_context& accepting() { return threads_.front()->context(); }

  void admit(Listener::Socket socket, IoThread& thread, const Listener& from) {
    Accepted accepted = from.accepted();
    const std::size_t others = state_.connections.load();
    accepted.connection = count_in(state_.connections);
    if (others >= state_.options.max_connections + kRefusedAtOnce) return state_.metrics.connection_refused();
    accepted.refuse = others >= state_.options.max_connections;
    if (from.passed()) accepted.to_hand_over = count_in(state_.to_hand_over);
    thread.serve(std::move(socket), std::move(accepted));
  }

  Api& api_;
  models::Registry& registry_;
  ServerState state_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<bool> accepting_passed_{true};
  bool started_ = false, stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::bind(const ServerOptions& options, Api& api,
                                             models::Registry& registry, metrics::Metrics& metrics) {
  auto server = std::make_unique<BeastServer>(options, api, registry, metrics);
  MILLRACE_TRY(server->bind());
  return std::unique_ptr<Server>(std::move(server));
}

Result<std::unique_ptr<Server>> Server::open(const ServerOptions& options, Api& api,
                                             models::Registry& registry, metrics::Metrics& metrics) {
  MILLRACE_ASSIGN(auto server, bind(options, api, registry, metrics));
  MILLRACE_TRY(server->start());
  return server;
}

}  // namespace millrace::server::http
