#include "server/http/server.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/log.hpp"
#include "server/http/limits.hpp"
#include "server/http/session.hpp"

namespace millrace::server::http {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using net::ip::tcp;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kAcceptRetry{100};
constexpr milliseconds kCloseBound{1'000};

/// How often deadlines are looked at: often enough that the shortest is kept to within a quarter.
milliseconds tick_of(const ServerOptions& options) {
  const milliseconds shortest = std::min({options.idle_timeout, options.header_timeout, options.body_timeout,
                                          options.write_timeout, options.linger});
  return std::clamp(shortest / 4, milliseconds(5), milliseconds(1'000));
}

/// One I/O thread: its connections, and the timer that looks at their deadlines.
class IoThread {
 public:
  explicit IoThread(ServerState& server)
      : state_(server, &context_), timer_(context_), tick_(tick_of(server.options)) {}

  void start() {
    schedule();
    thread_ = std::jthread([this] { run(); });
  }

  net::io_context& context() { return context_; }

  void adopt(tcp::socket socket, Admission admission) {
    net::post(context_, [this, socket = std::move(socket), admission]() mutable {
      start_session(std::move(socket), state_, admission);
    });
  }

  /// Connections close as soon as nothing is being answered on them.
  void begin_close() {
    net::post(context_, [this] {
      state_.closing = true;
      for_each([](Connection& connection) { connection.close_when_answered(); });
    });
  }

  void stop() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
    // Completions that pipelines posted last: a session holds itself until it has seen its own.
    context_.restart();
    context_.poll();
  }

 private:
  /// Sessions answer for their own memory; what still comes here must not end the server.
  void run() {
    while (true) {
      try {
        context_.run();
        return;
      } catch (const std::bad_alloc&) {
        log::error("http", "out of memory on an I/O thread");
      }
    }
  }

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
    // A connection never goes while its handler does not run, so the list stays as it is during the walk.
    for (Connection* connection : state_.connections) function(*connection);
  }

  ThreadState state_;  // outlives the context, whose handlers hold the sessions
  net::io_context context_{1};
  net::steady_timer timer_;
  const milliseconds tick_;
  std::jthread thread_;
};

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(endpoint.port());
}

class BeastServer final : public Server {
 public:
  BeastServer(const ServerOptions& options, Api& api, models::Registry& registry, metrics::Metrics& metrics)
      : api_(api), registry_(registry), state_{options, api, registry, metrics} {
    for (unsigned i = 0; i < std::max(1U, options.io_threads); ++i)
      threads_.push_back(std::make_unique<IoThread>(state_));
    acceptor_.emplace(threads_.front()->context());
    accept_retry_.emplace(threads_.front()->context());
  }
  ~BeastServer() override { stop(milliseconds(0)); }

  Status bind() {
    const HostPort& where = state_.options.listen;
    error_code error;
    tcp::resolver resolver(threads_.front()->context());
    const auto found = resolver.resolve(where.host, std::to_string(where.port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error) return failed(error);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_->open(endpoint.protocol(), error);
    if (error) return failed(error);
    acceptor_->set_option(net::socket_base::reuse_address(true), error);
    if (error) return failed(error);
    acceptor_->bind(endpoint, error);
    if (error) return failed(error);
    address_ = text_of(acceptor_->local_endpoint(error));
    if (error) return failed(error);
    return {};
  }

  Status start() override {
    error_code error;
    acceptor_->listen(net::socket_base::max_listen_connections, error);
    if (error) return failed(error);
    started_ = true;
    accept();
    for (auto& thread : threads_) thread->start();
    return {};
  }

  std::string address() const override { return address_; }
  void begin_drain() override { api_.begin_drain(); }
  bool idle() const override { return state_.answering.load() == 0; }

  void stop(milliseconds bound) override {
    if (std::exchange(stopped_, true) || !started_) return;
    begin_drain();
    const auto end = Clock::now() + bound;
    while (!idle() && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    // Every accepted frame completes in here, so every waiting session gets something to answer.
    registry_.stop(milliseconds(0));
    net::post(threads_.front()->context(), [this] {
      error_code ignored;
      acceptor_->close(ignored);
      accept_retry_->cancel();
    });
    for (auto& thread : threads_) thread->begin_close();
    const auto close_end = Clock::now() + kCloseBound;
    while (state_.connections.load() > 0 && Clock::now() < close_end)
      std::this_thread::sleep_for(milliseconds(1));
    state_.control.join();  // runs what is queued: a job holds its session
    for (auto& thread : threads_) thread->stop();
  }

 private:
  Error failed(const error_code& error) const {
    const HostPort& where = state_.options.listen;
    const bool taken = error == net::error::address_in_use;
    return Error(ErrorCode::kEnvironment,
                 "cannot listen on " + where.host + ":" + std::to_string(where.port) + ": " +
                     error.message() +
                     (taken ? "; stop what uses the port, or choose another (0: any free one)" : ""));
  }

  void accept() {
    IoThread& next = *threads_[next_++ % threads_.size()];
    acceptor_->async_accept(next.context(), [this, &next](error_code error, tcp::socket socket) {
      if (error == net::error::operation_aborted || !acceptor_->is_open()) return;
      if (error) return retry_accept(error);
      if (std::exchange(cannot_accept_, false)) log::info("http", "accepting connections again");
      admit(std::move(socket), next);
      accept();
    });
  }

  void admit(tcp::socket socket, IoThread& thread) {
    const std::size_t before = state_.connections.fetch_add(1);
    if (before >= state_.options.max_connections + kRefusedAtOnce) {
      state_.connections.fetch_sub(1);
      state_.metrics.connection_refused();
      return;
    }
    try {
      thread.adopt(std::move(socket),
                   before < state_.options.max_connections ? Admission::kServe : Admission::kRefuse);
    } catch (const std::bad_alloc&) {
      state_.connections.fetch_sub(1);
      state_.metrics.connection_refused();
    }
  }

  /// Out of descriptors, mostly: the connection waits in the backlog until some are free. Said once, not at
  /// every retry.
  void retry_accept(error_code error) {
    if (!std::exchange(cannot_accept_, true))
      log::warning("http", "cannot accept connections: " + error.message());
    accept_retry_->expires_after(kAcceptRetry);
    accept_retry_->async_wait([this](error_code cancelled) {
      if (!cancelled && acceptor_->is_open()) accept();
    });
  }

  Api& api_;
  models::Registry& registry_;
  ServerState state_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::optional<tcp::acceptor> acceptor_;
  std::optional<net::steady_timer> accept_retry_;
  std::size_t next_ = 0;
  std::string address_;
  bool started_ = false, stopped_ = false;
  bool cannot_accept_ = false;  // said so; of the accepting thread
};

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, std::string_view what) {
  const auto bad = [&] {
    return Error(ErrorCode::kInvalidInput,
                 std::string(what) + " '" + std::string(text.substr(0, 200)) +
                     "' is not HOST:PORT; examples: 127.0.0.1:8000, localhost:0, [::1]:8000");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  HostPort out;
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (port.empty() || code != std::errc() || end != port.data() + port.size()) return bad();
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find_first_of(":[]") != std::string_view::npos)
    return bad();
  if (host.empty()) return bad();
  out.host = host;
  return out;
}

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
