// Implements a connection. It is one class, and this file has more than 500 lines, because the coroutine run() and the
// steps that it calls share their state.
#include "server/http/connection/connection.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory_resource>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/http/connection/coding.hpp"
#include "server/http/connection/incoming.hpp"
#include "server/http/connection/peer.hpp"
#include "server/http/connection/transport.hpp"

namespace millrace::server::http {
namespace {

namespace net = boost::asio;
using boost::beast::http::verb;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kFirstChunk = Incoming::kFirstChunk;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

/// The current activity of a connection. The I/O thread reads it to enforce deadlines.
enum class Phase {
  kHandshake,  // the TLS handshake
  kReading,    // waits for a request, or has received a part of it
  kWorking,    // a pipeline or another thread works on the request
  kWriting,
  kLingering,  // answers no more requests, but reads and discards the client's bytes, to avoid a TCP reset
};

/// A request and its answer.
struct Exchange {
  bool keep_alive = true, client_gone = false;
  std::optional<Clock::time_point> arrival;  // when the last byte of the request was read
  std::vector<std::byte> decoded;            // the decoded body, if the request has a content coding
  std::string cors_headers;                  // header lines of the answer
  std::string admin;                         // who used an admin route; empty: no admin route
  Counted answering;
  InferencePool::Lease inference;
  Response response;
  Coding coding = Coding::kIdentity;  // content coding of the response
};

/// A view of the buffers to write, because Asio copies the buffer sequence several times, and copies of a vector would
/// allocate.
using BufferView = std::span<const net::const_buffer>;

Response busy(std::string_view why) {
  Response response = error_response(503, why);
  response.retry_after_seconds = 1;
  return response;
}

Response held_too_much() {
  return busy("the server has reached its limit of bytes in requests and answers; try again");
}

/// Returns the answer to a request whose handling threw an exception. Nothing else converts exceptions to answers. If
/// the memory does not suffice even for this answer, std::bad_alloc ends the process.
Response answer_to(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return error_response(503, "out of memory for this request");
  log::error("http", std::string("request failed by a bug of ours: ") + error.what());
  return error_response(500, "internal error; the server's log says more");
}

class HttpConnection final : public Connection, public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(Socket socket, ThreadState& thread, Accepted accepted)
      : transport_(std::move(socket), std::move(accepted.tls)),
        access_(accepted.access),
        refuse_(accepted.refuse),
        passed_(accepted.to_hand_over != nullptr),
        counted_(std::move(accepted.connection)),
        to_hand_over_(std::move(accepted.to_hand_over)),
        thread_(thread),
        server_(thread.server),
        incoming_(server_.options) {
    position_ = thread_.connections.insert(thread_.connections.end(), this);
    server_.metrics.connection_opened();
    error_code ignored;
    transport_.socket().set_option(net::ip::tcp::no_delay(true), ignored);
    transport_.socket().non_blocking(true, ignored);
    peer_ = transport_.socket().remote_endpoint(ignored);
    client_ = client_key(*peer_.data(), reinterpret_cast<std::uintptr_t>(this));
  }
  ~HttpConnection() {
    release();
    thread_.connections.erase(position_);
    server_.metrics.connection_closed();
  }

  /// The coroutine that serves the connection owns this object, which keeps the connection alive and closes it at
  /// the end.
  class Open {
   public:
    explicit Open(std::shared_ptr<HttpConnection> connection) : connection_(std::move(connection)) {}
    Open(Open&&) = default;
    ~Open() {
      if (connection_) connection_->close();
    }

   private:
    std::shared_ptr<HttpConnection> connection_;
  };

  /// Serves the connection until it closes. The coroutine ends with co_return, or when the I/O context destroys the
  /// operation for which the coroutine waits.
  Detached run(Open open);

  void check_deadline(Clock::time_point now) override {
    // Watch for a disconnect only now: most requests are answered before the first check, and watching each client
    // from the start would cost a system call per request.
    if (phase_ == Phase::kWorking) return watch();
    if (now < deadline_) return;
    if (phase_ == Phase::kReading && incoming_.begun()) return transport_.cancel();  // run() answers 408
    transport_.close();
  }

  void close_when_answered() override {
    exchange_->keep_alive = false;
    if (phase_ != Phase::kWorking && phase_ != Phase::kWriting) transport_.close();
  }

  void dismiss() override {
    if (!passed_ || phase_ != Phase::kReading || incoming_.begun()) return;
    error_code error;
    if (transport_.socket().available(error) > 0) return;
    // A read for the next request is still pending. This read ends when the client closes the connection.
    begin_lingering();
    transport_.socket().shutdown(Socket::shutdown_send, error);
    if (error) transport_.close();
  }

 private:
  Detached linger(Open open);

  /// Adds `bytes` to the bytes that all connections hold. Returns false if the total now exceeds max_held_bytes.
  bool hold(std::uint64_t bytes) {
    held_ += bytes;
    return server_.held_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes <=
           server_.options.max_held_bytes;
  }
  void release() { server_.held_bytes.fetch_sub(std::exchange(held_, 0), std::memory_order_relaxed); }
  std::uint64_t room_to_hold() const {
    const std::uint64_t held = server_.held_bytes.load(std::memory_order_relaxed);
    return server_.options.max_held_bytes - std::min(held, server_.options.max_held_bytes);
  }

  void begin_exchange() {
    phase_ = Phase::kReading;
    if (!reading_ahead_) incoming_.shrink();
    incoming_.begin();
    deadline_ = Clock::now() + server_.options.idle_timeout;
  }

  /// Parses the buffered bytes and sets the next deadline. Returns the answer if the request must be refused.
  std::optional<Response> parse() {
    const bool begun = incoming_.begun();
    if (auto fault = incoming_.parse()) return fault;
    if (!begun && incoming_.begun()) deadline_ = Clock::now() + server_.options.header_timeout;
    const std::uint64_t body_bytes = incoming_.body().size();
    if (body_bytes > held_ && !hold(body_bytes - held_)) return held_too_much();
    if (incoming_.done() || !incoming_.take_header()) return std::nullopt;
    deadline_ = Clock::now() + server_.options.body_timeout;
    // Refuse the request before the client sends the body, if no body can make it valid.
    if (auto no = server_.api.refusal(incoming_.request(access_), thread_.workspace)) return no;
    if (incoming_.announced() > body_bytes + room_to_hold()) return held_too_much();
    return std::nullopt;
  }

  /// Whether the read failed because check_deadline() cancelled it, and the connection is still open.
  bool timed_out(const IoResult& read) const {
    return read.error == net::error::operation_aborted && transport_.is_open();
  }

  void drop_body() {
    incoming_.drop_body();
    std::vector<std::byte>().swap(exchange_->decoded);
    release();
  }

  Outcome handle() {
    const auto arrival = Clock::now();
    exchange_->arrival = arrival;
    exchange_->keep_alive = incoming_.keep_alive() && !thread_.closing;
    exchange_->answering = count_in(server_.answering);
    Request request = incoming_.request(access_);
    request.client = client_;
    request.body = std::as_bytes(incoming_.body());
    if (auto no = incoming_.take_inference_header_length(request)) return std::move(*no);
    if (const auto coding = incoming_.content_coding(); !coding.empty())
      if (auto no = decode(coding, request)) return std::move(*no);
    Outcome outcome = server_.api.handle(request, thread_.workspace, arrival);
    exchange_->admin.swap(thread_.workspace.admin);
    return outcome;
  }

  /// Decodes the request's body, which has the content coding `name`. Returns the answer if that fails.
  std::optional<Response> decode(std::string_view name, Request& request) {
    if (auto no = server_.api.refusal(request, thread_.workspace)) return no;
    const auto coding = parse_coding(name);
    if (!coding)
      return error_response(501, "Content-Encoding '" + std::string(name.substr(0, 64)) +
                                     "' is not offered; gzip and deflate are");
    if (*coding == Coding::kIdentity) return std::nullopt;
    auto body = decoded(*coding, request.body, server_.options.max_body_bytes);
    if (!body) {
      const bool too_long = body.error().code() == ErrorCode::kResourceExhausted;
      return error_response(too_long ? 413 : 400, body.error().message());
    }
    if (!hold(body->size())) return held_too_much();
    exchange_->decoded = std::move(body).value();
    request.body = exchange_->decoded;
    return std::nullopt;
  }

  // Each overload of start() either sets the response and returns false, or starts the work on the request and returns
  // true. In the second case, come_back() is called once when the work has ended.

  bool start(Response& response) {
    exchange_->response = std::move(response);
    return false;
  }

  bool start(InferencePool::Lease& lease) {
    exchange_->inference = std::move(lease);
    Inference& inference = *exchange_->inference;
    phase_ = Phase::kWorking;
    const Status started =
        inference.start([](runtime::pipeline::Frame&,
                           void* connection) { static_cast<HttpConnection*>(connection)->come_back(); },
                        this);
    if (!started.ok())
      exchange_->response = error_response(started.error(), inference.model().pipeline().retry_after());
    return started.ok();
  }

  bool start(ControlJob& job) {
    ControlThread& thread = job.scrape ? server_.scrapes : server_.control;
    Counted counted(&thread.jobs);
    if (thread.jobs.fetch_add(1) >= ControlThread::kMostJobs) {
      exchange_->response = busy("too many status requests are waiting; try again");
      return false;
    }
    phase_ = Phase::kWorking;
    // The I/O thread does not touch the exchange until come_back() is called, so the job may use the exchange (the
    // request and its answer).
    net::post(thread.pool, [this, run = std::move(job.run), counted = std::move(counted)]() mutable {
      try {
        exchange_->response = run();
        compress();
      } catch (...) {
        failure_ = std::current_exception();
      }
      run = nullptr;
      counted.reset();
      come_back();
    });
    watch();
    return true;
  }

  bool start(DeferredJob& job) {
    phase_ = Phase::kWorking;
    job.start([this](Response response) {
      exchange_->response = std::move(response);
      come_back();
    });
    watch();
    return true;
  }

  /// Makes the connection's I/O thread resume run(), which waits in `waiting_`. Any thread may call it. The connection
  /// may be destroyed before come_back() returns.
  void come_back() {
    handler_memory_.release();
    net::post(thread_.context->get_executor(),
              net::bind_allocator(std::pmr::polymorphic_allocator<>(&handler_memory_),
                                  [this] { waiting_.resume(); }));
  }

  /// Starts to read the next request early, to notice if the client disconnects while its request is worked on. At
  /// most one such read is pending. If the read outlasts the request, run() waits for it instead of reading.
  ///
  /// The read does not use the buffer of `incoming_`, because run() may parse the buffered bytes, and so move the free
  /// room, before the read completes. If an allocation fails, the next call of check_deadline() tries again.
  void watch() noexcept {
    if (reading_ahead_ || incoming_.full()) return;
    try {
      ahead_.resize(kFirstChunk);
      incoming_.reserve(kFirstChunk);  // so that the handler allocates nothing
      transport_.async_read_some(net::buffer(ahead_),
                                 [self = shared_from_this()](error_code error, std::size_t bytes) {
                                   self->read_ahead(error, bytes);
                                 });
      reading_ahead_ = true;
    } catch (const std::bad_alloc&) {
    }
  }

  void read_ahead(error_code error, std::size_t bytes) {
    reading_ahead_ = false;
    ahead_error_ = error;
    if (phase_ != Phase::kLingering) {
      net::buffer_copy(incoming_.room(bytes), net::buffer(ahead_, bytes));
      incoming_.commit(bytes);
    }
    std::vector<std::byte>().swap(ahead_);
    if (error && phase_ == Phase::kWorking) client_went();
    if (waits_for_ahead_) waiting_.resume();
  }

  void client_went() {
    exchange_->client_gone = true;
    if (exchange_->inference) exchange_->inference->cancel();
  }

  void compress() {
    const ServerOptions& options = server_.options;
    if (options.compress_from_bytes == 0 || exchange_->coding != Coding::kIdentity ||
        !incoming_.has_header() || incoming_.is(verb::head))
      return;
    const auto accepts = incoming_.find("Accept-Encoding");
    if (!accepts.empty())
      exchange_->coding =
          compressed(exchange_->response, preferred_coding(accepts), options.compress_from_bytes);
  }

  /// Logs and counts the answer, and returns the bytes to write.
  BufferView prepare_answer() {
    phase_ = Phase::kWriting;
    deadline_ = Clock::now() + server_.options.write_timeout;
    // When the server is about to stop, make the client close the connection, so that its next request goes to another
    // server. GETs on the server's own sockets keep their connection, so that health probes see "not ready".
    if (server_.api.leaving() && (passed_ || incoming_.is(verb::post))) exchange_->keep_alive = false;
    const Response& response = exchange_->response;
    if (incoming_.has_header())
      exchange_->cors_headers = server_.api.cors_headers(incoming_.request(access_));
    HeadOptions head;
    head.coding = exchange_->coding;
    head.http_1_0 = incoming_.http_1_0();
    head.keep_alive = exchange_->keep_alive;
    head.varies = server_.options.compress_from_bytes != 0 && incoming_.is(verb::get);
    head.more_headers = exchange_->cors_headers;
    head.request_id = log_request();
    head.date = thread_.date.now();
    write_response_head(head_, response, head);
    server_.metrics.http_answered(response.status);
    if (response.status >= 429 && incoming_.is(verb::post))
      server_.api.note_failure(incoming_.target(), response);
    buffers_ = {net::buffer(head_)};
    if (incoming_.is(verb::head)) {
      std::string().swap(exchange_->response.body);  // the answer to HEAD has no body: free the memory
    } else {
      buffers_.push_back(net::buffer(response.body));
      for (const auto part : response.binary) buffers_.push_back(net::buffer(part.data(), part.size()));
    }
    return buffers_;
  }

  /// Counts the answer's bytes as held. If the total then exceeds max_held_bytes, replaces the answer by a 503. An
  /// answer of at most kFirstChunk bytes is sent anyway, because it costs no more than an idle connection.
  void hold_answer() {
    if (incoming_.is(verb::head)) return;
    const std::uint64_t bytes = body_bytes(exchange_->response);
    if (hold(bytes) || bytes <= kFirstChunk) return;
    exchange_->response = held_too_much();
    exchange_->inference.reset();
    exchange_->coding = Coding::kIdentity;
    exchange_->keep_alive = false;
    drop_body();
  }

  /// Logs the request, and returns the id for the answer's header. The id is valid until the request ends.
  std::string_view log_request() {
    Asked about{"a request", "that was not read", {}, exchange_->admin, peer_.data(), {}, exchange_->arrival};
    if (exchange_->inference) about.version = exchange_->inference->served().version();
    if (incoming_.has_header()) {
      about.method = incoming_.method();
      about.target = incoming_.target();
      about.id = incoming_.find("X-Request-Id");
    }
    return thread_.requests.record(exchange_->response, about);
  }

  /// Frees the memory of the request and its answer. Returns whether the connection stays open.
  bool end_exchange() {
    if (exchange_->inference) exchange_->inference->keep(std::move(exchange_->response));
    const bool keep_alive = exchange_->keep_alive;
    exchange_.emplace();
    incoming_.end();
    release();
    return keep_alive;
  }

  void begin_lingering() {
    phase_ = Phase::kLingering;
    to_hand_over_.reset();
    deadline_ = Clock::now() + server_.options.linger;
  }

  void close() {
    phase_ = Phase::kLingering;
    to_hand_over_.reset();
    transport_.close();
  }

  Transport transport_;
  const Access access_;
  const bool refuse_;
  const bool passed_;  // the connection came through a socket that the service manager passed
  const Counted counted_;
  Counted to_hand_over_;
  ThreadState& thread_;
  ServerState& server_;
  std::list<Connection*>::iterator position_;
  Socket::endpoint_type peer_;
  std::uint64_t client_ = 0;

  Phase phase_ = Phase::kHandshake;
  Clock::time_point deadline_ = Clock::time_point::max();
  Incoming incoming_;
  std::optional<Exchange> exchange_{std::in_place};
  std::uint64_t held_ = 0;  // this connection's part of server_.held_bytes
  std::string head_;
  std::vector<net::const_buffer> buffers_;

  std::coroutine_handle<> waiting_;  // run(), while it waits for come_back() or read_ahead()
  std::exception_ptr failure_;       // thrown by a control job
  // The memory for the handler that come_back() posts. It is part of the connection, so that a warm server allocates
  // nothing.
  std::array<std::byte, 256> handler_bytes_;
  std::pmr::monotonic_buffer_resource handler_memory_{handler_bytes_.data(), handler_bytes_.size()};

  bool reading_ahead_ = false, waits_for_ahead_ = false;
  std::vector<std::byte> ahead_;
  error_code ahead_error_;
};

Detached HttpConnection::run(Open open) {
  if (refuse_) server_.metrics.connection_refused();
  if (transport_.secure()) {
    if (refuse_) co_return;  // closes without an answer, which would need a handshake
    deadline_ = Clock::now() + server_.options.header_timeout;
    const IoResult shaken = co_await transport_.handshake();
    if (shaken.error) co_return;
  }
  bool goes_on = true;
  while (goes_on) {
    if (thread_.closing) co_return;
    begin_exchange();
    try {
      std::optional<Response> refused =
          refuse_ ? busy("the server's limit of connections is reached") : parse();
      while (!refused && !incoming_.done()) {
        if (incoming_.take_continue()) {
          const IoResult sent = co_await transport_.write(net::buffer(kContinue));
          if (sent.error) co_return;
        }
        IoResult read;
        if (reading_ahead_) {
          waits_for_ahead_ = true;
          co_await UntilResumed{waiting_};
          waits_for_ahead_ = false;
          read.error = ahead_error_;
        } else {
          const auto room = incoming_.room();  // if the allocation fails, the catch block below answers
          read = co_await transport_.read_some(room);
          incoming_.commit(read.bytes);
        }
        if (timed_out(read)) {
          refused = error_response(408, "the request did not arrive in time");
        } else {
          if (read.error || phase_ != Phase::kReading) co_return;
          refused = parse();
        }
      }
      if (refused) {
        exchange_->keep_alive = false;  // the rest of the input cannot be parsed
        drop_body();                    // free the body before the answer is written
        exchange_->response = std::move(*refused);
      } else {
        Outcome outcome = handle();
        const bool works = std::visit([&](auto& what) { return start(what); }, outcome);
        if (works) co_await UntilResumed{waiting_};
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        if (works && exchange_->inference) exchange_->response = exchange_->inference->finish();
      }
      compress();
      hold_answer();
    } catch (const std::exception& error) {
      if (!incoming_.done()) exchange_->keep_alive = false;  // or its rest would be parsed as a request
      exchange_->response = answer_to(error);
      exchange_->coding = Coding::kIdentity;
    }
    if (exchange_->client_gone) {
      if (!exchange_->admin.empty()) log_request();  // the work was done although nobody gets the answer
      co_return;
    }
    const BufferView bytes = prepare_answer();
    const IoResult written = co_await transport_.write(bytes);
    goes_on = end_exchange();
    if (written.error) co_return;
  }
  linger(std::move(open));
}

/// Keeps reading after the last answer, so that the client receives the answer instead of a TCP reset.
Detached HttpConnection::linger(Open) {
  begin_lingering();
  if (transport_.secure())  // waits for the client's close_notify, at most until the deadline
    co_await transport_.shutdown();
  error_code error;
  transport_.socket().shutdown(Socket::shutdown_send, error);
  if (error || thread_.closing) co_return;
  incoming_.discard();
  std::vector<std::byte> discarded(kFirstChunk);
  IoResult read;
  while (!read.error)
    read = co_await Operation(
        [&](auto done) { transport_.socket().async_read_some(net::buffer(discarded), std::move(done)); });
}

}  // namespace

void serve_connection(Socket socket, ThreadState& thread, Accepted accepted) {
  const auto connection = std::make_shared<HttpConnection>(std::move(socket), thread, std::move(accepted));
  connection->run(HttpConnection::Open(connection));
}

}  // namespace millrace::server::http
