#include "server/http/connection/session.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <memory_resource>
#include <new>
#include <optional>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/http/connection/beast_request.hpp"
#include "server/http/connection/incoming.hpp"
#include "server/http/connection/outgoing.hpp"
#include "server/http/connection/transport.hpp"

namespace millrace::server::http {
namespace {

namespace net = boost::asio;
namespace bhttp = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kFirstChunk = Incoming::kFirstChunk;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

enum class State {
  kHandshake,  // of TLS
  kReading,    // waiting for a request, or in the middle of one
  kControl,    // a control job runs
  kInferring,  // a frame is with a pipeline
  kWriting,
  kLingering,  // answered for the last time; reading what the client still sends, so that it is not reset
  kClosed,
};

class Session final : public Connection, public std::enable_shared_from_this<Session> {
 public:
  Session(Socket socket, ThreadState& thread, Entrance entrance)
      : transport_(std::move(socket), std::move(entrance.tls)),
        gate_(entrance.gate),
        passed_(entrance.passed),
        to_hand_over_(entrance.passed),
        thread_(thread),
        server_(thread.server),
        incoming_(server_.options) {
    place_ = thread_.connections.insert(thread_.connections.end(), this);
    server_.metrics.connection_opened();
  }
  ~Session() {
    release();
    handed_over();
    thread_.connections.erase(place_);
    server_.connections.fetch_sub(1);
    server_.metrics.connection_closed();
  }

  void check_deadline(Clock::time_point now) override {
    // A frame is back long before, mostly: a watch for each would cost the path a system call.
    if (state_ == State::kInferring) watch();
    if (now < deadline_ || state_ == State::kClosed) return;
    if (state_ == State::kReading && incoming_.begun()) {
      // The aborted read comes back and answers.
      expired_ = true;
      deadline_ = Clock::time_point::max();
      transport_.cancel();
      return;
    }
    close();
  }

  void close_when_answered() override {
    if (state_ == State::kHandshake || state_ == State::kReading || state_ == State::kLingering) close();
    keep_alive_ = false;
  }

  void dismiss() override {
    if (!passed_ || state_ != State::kReading || incoming_.begun()) return;
    error_code error;
    if (transport_.socket().available(error) > 0) return;
    // The read that waits goes on, and ends with the client's own close.
    state_ = State::kLingering;
    handed_over();
    deadline_ = Clock::now() + server_.options.linger;
    transport_.socket().shutdown(Socket::shutdown_send, error);
    if (error) close();
  }

 private:
  /// Nothing more is answered on this connection.
  void handed_over() {
    if (std::exchange(to_hand_over_, false)) server_.to_hand_over.fetch_sub(1);
  }

  // Memory.
  // ----------------------------------------------------------------------------------------------------------

  /// Counts what the connection holds against the bound of all; false where they are over it.
  bool hold(std::uint64_t bytes) {
    held_ += bytes;
    return server_.held_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes <=
           server_.options.max_held_bytes;
  }
  /// Its memory too, which assigning nothing would keep.
  template <class Bytes>
  static void give_back(Bytes& bytes) {
    Bytes().swap(bytes);
  }
  void release() { server_.held_bytes.fetch_sub(std::exchange(held_, 0), std::memory_order_relaxed); }

  /// One step of answering. This is the only place that turns an exception into an answer. If there is not even
  /// enough memory for that answer, std::bad_alloc ends the process, and it is restarted.
  template <class Step>
  void or_answer(Step step) {
    Response instead;
    try {
      return step();
    } catch (const std::bad_alloc&) {
      instead = error_response(503, "out of memory for this request");
    } catch (const std::exception& error) {
      log::error("http", std::string("request failed by a bug of ours: ") + error.what());
      instead = error_response(500, "internal error; the server's log says more");
    }
    if (!incoming_.done()) keep_alive_ = false;  // the rest of the request must not pass for the next one
    answer(std::move(instead));
  }

 public:
  void start(Admission admission) {
    error_code ignored;
    transport_.socket().set_option(net::ip::tcp::no_delay(true), ignored);
    transport_.socket().non_blocking(true, ignored);
    peer_ = transport_.socket().remote_endpoint(ignored);
    client_ = client_of(transport_.socket(), reinterpret_cast<std::uintptr_t>(this));
    if (admission == Admission::kServe) return transport_.secure() ? handshake() : next_request();
    server_.metrics.connection_refused();
    if (transport_.secure()) return close();  // to say why would take a handshake
    keep_alive_ = false;
    answer(busy("the server's limit of connections is reached"));
  }

 private:
  void handshake() {
    state_ = State::kHandshake;
    deadline_ = Clock::now() + server_.options.header_timeout;
    transport_.async_handshake([self = shared_from_this()](error_code error) {
      if (self->state_ != State::kHandshake) return;
      if (error) return self->close();
      self->next_request();
    });
  }

  // Reading.
  // ---------------------------------------------------------------------------------------------------------

  void next_request() {
    if (thread_.closing) return close();
    state_ = State::kReading;
    if (!reading_) incoming_.shrink();
    incoming_.begin();
    head_only_ = false;
    more_headers_.clear();
    admin_.clear();
    arrival_.reset();
    deadline_ = Clock::now() + server_.options.idle_timeout;
    parse();
  }

  /// Parses what is buffered; goes on to answer, or reads more.
  void parse() {
    const bool begun = incoming_.begun();
    auto fault = incoming_.parse();
    if (!begun && incoming_.begun()) deadline_ = Clock::now() + server_.options.header_timeout;
    if (fault) return refuse(std::move(*fault));
    const std::uint64_t body_bytes = incoming_.body().size();
    if (body_bytes > held_ && !hold(body_bytes - held_)) return too_much_held();
    if (incoming_.done()) return handle();
    if (incoming_.take_header()) {
      deadline_ = Clock::now() + server_.options.body_timeout;
      // What was announced and cannot be had is refused before it is sent.
      if (auto no = refusal()) return refuse(std::move(*no));
      if (incoming_.announced() > body_bytes + room()) return too_much_held();
      if (incoming_.take_continue()) return send_continue();
    }
    read();
  }

  void read() {
    if (reading_) return;  // what read_ahead() began goes on
    reading_ = true;
    transport_.async_read_some(
        incoming_.room(),
        [self = shared_from_this()](error_code error, std::size_t bytes) { self->on_read(error, bytes); });
  }

  /// The next request, early, while one is worked on. Not straight into the buffer: what lies there may be
  /// parsed, and the buffer emptied, before this read is back.
  void read_ahead() {
    if (reading_ || !incoming_.make_room_ahead()) return;
    ahead_.resize(kFirstChunk);
    transport_.async_read_some(net::buffer(ahead_),
                               [self = shared_from_this()](error_code error, std::size_t bytes) {
                                 self->on_read_ahead(error, bytes);
                               });
    reading_ = true;
  }

  void on_read_ahead(error_code error, std::size_t bytes) {
    if (state_ == State::kLingering || state_ == State::kClosed) return;
    net::buffer_copy(incoming_.room(bytes), net::buffer(ahead_));
    give_back(ahead_);
    if (error && (state_ == State::kInferring || state_ == State::kControl)) client_went();
    on_read(error, bytes);
  }

  void on_read(error_code error, std::size_t bytes) {
    reading_ = false;
    if (state_ == State::kLingering) return close();  // dismissed while it waited for a request
    incoming_.commit(bytes);
    if (state_ != State::kReading) return;
    if (error && !expired_) return close();
    if (expired_) return refuse(error_response(408, "the request did not arrive in time"));
    or_answer([&] { parse(); });
  }

  void send_continue() {
    transport_.async_write(net::buffer(kContinue),
                           [self = shared_from_this()](error_code error, std::size_t) {
                             if (self->state_ != State::kReading) return;
                             if (error) return self->close();
                             self->read();
                           });
  }

  std::uint64_t room() const {
    const std::uint64_t held = server_.held_bytes.load(std::memory_order_relaxed);
    return server_.options.max_held_bytes - std::min(held, server_.options.max_held_bytes);
  }

  static Response busy(std::string_view why) {
    Response response = error_response(503, why);
    response.retry_after_seconds = 1;
    return response;
  }
  static Response held_too_much() {
    return busy("the server holds as many bytes of requests and answers as it may");
  }
  void too_much_held() { refuse(held_too_much()); }

  /// Answers a request that was not read to its end; what follows on the connection has no meaning.
  void refuse(Response response) {
    keep_alive_ = false;
    drop_body();  // not kept while the answer is written
    if (const auto* message = incoming_.asked()) {
      take_header(*message);
      const FieldsView headers(*message);
      more_headers_ = server_.api.cors_headers(request_of(*message, headers, gate_));
    }
    answer(std::move(response));
  }

  void drop_body() {
    incoming_.drop_body();
    give_back(decoded_);
    release();
  }

  // Handling.
  // --------------------------------------------------------------------------------------------------------

  void take_header(const bhttp::request<Body>& message) {
    http_1_0_ = message.version() < 11;
    head_only_ = message.method() == bhttp::verb::head;
  }

  /// Where a request whose body is still to come will be refused anyway.
  std::optional<Response> refusal() {
    const auto& message = incoming_.message();
    const FieldsView headers(message);
    return server_.api.refusal(request_of(message, headers, gate_), thread_.workspace);
  }

  void handle() {
    const auto arrival = Clock::now();
    arrival_ = arrival;
    deadline_ = Clock::time_point::max();
    const auto& message = incoming_.message();
    keep_alive_ = message.keep_alive() && !thread_.closing;
    take_header(message);

    const FieldsView headers(message);
    Request request = request_of(message, headers, gate_);
    request.client = client_;
    request.body = std::as_bytes(incoming_.body());

    begin_answering();
    or_answer([&] {
      more_headers_ = server_.api.cors_headers(request);
      if (auto no = take_inference_header_length(message, request)) return answer(std::move(*no));
      if (const auto coding = content_coding(message); !coding.empty())
        if (auto no = decode(coding, request)) return answer(std::move(*no));
      Api::Outcome outcome = server_.api.handle(request, thread_.workspace, arrival);
      admin_.swap(thread_.workspace.admin);
      if (auto* response = std::get_if<Response>(&outcome)) return answer(std::move(*response));
      if (auto* job = std::get_if<Api::ControlJob>(&outcome)) return run_control(std::move(*job));
      if (auto* job = std::get_if<Api::DeferredJob>(&outcome)) return run_deferred(*job);
      infer(std::move(std::get<InferencePool::Lease>(outcome)));
    });
  }

  /// Takes the content coding off the request's body; an answer where that cannot be.
  std::optional<Response> decode(std::string_view name, Request& request) {
    if (auto no = server_.api.refusal(request, thread_.workspace)) return no;
    const auto coding = parse_coding(name);
    if (!coding)
      return error_response(501, "Content-Encoding '" + std::string(name.substr(0, 64)) +
                                     "' is not offered; gzip and deflate are");
    if (*coding == Coding::kIdentity) return std::nullopt;
    const std::uint64_t limit = server_.options.max_body_bytes;
    auto body = decoded(*coding, request.body, limit);
    if (!body) {
      const bool long_one = body.error().code() == ErrorCode::kResourceExhausted;
      return error_response(long_one ? 413 : 400, body.error().message());
    }
    if (!hold(body->size())) return held_too_much();
    decoded_ = std::move(body).value();
    request.body = decoded_;
    return std::nullopt;
  }

  void run_deferred(const Api::DeferredJob& job) {
    state_ = State::kControl;
    // The answer may come before this returns, and on any thread. There the session must not end: what is
    // called gives up its hold on it.
    job.start([hold = std::make_shared<std::shared_ptr<Session>>(shared_from_this())](Response response) {
      auto self = std::exchange(*hold, nullptr);
      Session& session = *self;
      session.outgoing_.response = std::move(response);
      session.come_back([self = std::move(self)] {
        self->or_answer([&] { self->answer(std::move(self->outgoing_.response)); });
      });
    });
    watch();
  }

  void run_control(Api::ControlJob job) {
    ControlThread& thread = job.scrape ? server_.scrapes : server_.control;
    ControlThread::Place place = thread.enter();
    if (!place) return answer(busy("too many requests wait for documents of the server"));
    state_ = State::kControl;
    const Coding coding = wanted_coding();
    net::post(thread.pool, [self = shared_from_this(), run = std::move(job.run), place = std::move(place),
                            coding]() mutable {
      // The connection's thread leaves these alone until it is called.
      try {
        self->outgoing_.response = run();
        if (!self->head_only_) self->outgoing_.compress(coding, self->server_.options.compress_from_bytes);
      } catch (...) {
        self->failure_ = std::current_exception();
      }
      run = nullptr;
      place.reset();
      Session& session = *self;
      session.come_back([self = std::move(self)] {
        self->or_answer([&] {
          if (const auto failure = std::exchange(self->failure_, nullptr)) std::rethrow_exception(failure);
          self->answer(std::move(self->outgoing_.response));
        });
      });
    });
    watch();
  }

  /// To the connection's thread, from another. One call at a time is under way, so all use the same memory.
  template <class Function>
  void come_back(Function function) {
    handler_memory_.release();
    net::post(thread_.context->get_executor(),
              net::bind_allocator(std::pmr::polymorphic_allocator<>(&handler_memory_), std::move(function)));
  }

  void infer(InferencePool::Lease inference) {
    state_ = State::kInferring;
    inference_ = std::move(inference);
    self_while_inferring_ = shared_from_this();
    if (const Status started = inference_->start(&Session::on_inference_done, this); !started.ok()) {
      const auto self = std::move(self_while_inferring_);
      return answer(error_response(started.error(), inference_->model().pipeline().retry_after()));
    }
  }

  /// On a pipeline's thread.
  static void on_inference_done(void* context) {
    auto* session = static_cast<Session*>(context);
    session->come_back([session] {
      const auto self = std::move(session->self_while_inferring_);
      session->or_answer([&] { session->answer(session->inference_->finish()); });
    });
  }

  /// Notices a client that goes away while its request is worked on. One wait is outstanding at most; it may
  /// outlive the request, and then completes with the next request's bytes, or with the socket.
  ///
  /// In TLS only a read tells whether what came is a request or the end.
  void watch() {
    if (transport_.secure()) return read_ahead();
    if (watching_) return;
    watching_ = true;
    transport_.socket().async_wait(Socket::wait_read,
                                   [self = shared_from_this()](error_code error) { self->on_watch(error); });
  }

  void on_watch(error_code error) {
    watching_ = false;
    if (state_ != State::kInferring && state_ != State::kControl) return;
    if (!error) {
      char byte = 0;
      const std::size_t got = transport_.socket().receive(net::buffer(&byte, 1), Socket::message_peek, error);
      if (!error && got > 0) return;  // the next request, early
      if (error == net::error::would_block) return watch();
    }
    client_went();
  }

  void client_went() {
    client_gone_ = true;
    if (state_ == State::kInferring) inference_->cancel();
  }

  // Answering.
  // -------------------------------------------------------------------------------------------------------

  void begin_answering() {
    answering_ = true;
    server_.answering.fetch_add(1);
  }
  void end_answering() {
    if (answering_) server_.answering.fetch_sub(1);
    answering_ = false;
  }

  void finish_without_answer() {
    end_answering();
    close();
  }

  void answer(Response response) {
    outgoing_.response = std::move(response);
    if (client_gone_) {
      if (!admin_.empty()) log_request();  // it is done all the same
      return finish_without_answer();
    }
    state_ = State::kWriting;
    // The client's next request would find the connection cut; told so, it goes elsewhere with it. Probes of
    // this server's own sockets keep their connection, to see that it is not ready.
    if (server_.api.leaving() && (passed_ || incoming_.asks_by(bhttp::verb::post))) keep_alive_ = false;
    deadline_ = Clock::now() + server_.options.write_timeout;
    if (!head_only_) {
      outgoing_.compress(wanted_coding(), server_.options.compress_from_bytes);
      hold_answer();
    }
    const std::string_view request_id = log_request();
    HeadOptions head;
    head.http_1_0 = http_1_0_;
    head.keep_alive = keep_alive_;
    head.varies = server_.options.compress_from_bytes != 0 && incoming_.asks_by(bhttp::verb::get);
    head.more_headers = more_headers_;
    head.request_id = request_id;
    head.date = thread_.date.now();
    const BufferView bytes = outgoing_.serialise(head, head_only_);
    server_.metrics.http_answered(outgoing_.response.status);
    if (outgoing_.response.status >= 429 && incoming_.asks_by(bhttp::verb::post))
      server_.api.note_failure(view_of(incoming_.asked()->target()), outgoing_.response);
    transport_.async_write(
        bytes, [self = shared_from_this()](error_code error, std::size_t) { self->on_written(error); });
  }

  /// Counts the answer. One that finds no room is given up and refused; not a small one, which costs no more
  /// than an idle connection.
  void hold_answer() {
    const std::uint64_t bytes = body_bytes(outgoing_.response);
    if (hold(bytes) || bytes <= kFirstChunk) return;
    if (inference_) inference_->keep(std::move(outgoing_.response));
    inference_.reset();
    outgoing_.replace(held_too_much());
    keep_alive_ = false;
    drop_body();
  }

  /// Of the request being answered; its client's choice.
  Coding wanted_coding() const {
    if (server_.options.compress_from_bytes == 0 || incoming_.asked() == nullptr) return Coding::kIdentity;
    const auto accepts = (*incoming_.asked())[bhttp::field::accept_encoding];
    return accepts.empty() ? Coding::kIdentity : preferred_coding(view_of(accepts));
  }

  /// Returns the id for the answer; good until the parser goes.
  std::string_view log_request() {
    Asked about{"a request", "that was not read", {}, admin_, peer_.data(), {}, arrival_};
    if (inference_) about.version = inference_->served().version();
    if (const auto* message = incoming_.asked()) {
      about.method = view_of(message->method_string());
      about.target = view_of(message->target());
      about.id = view_of((*message)["X-Request-Id"]);
    }
    return thread_.requests.about(outgoing_.response, about);
  }

  void on_written(error_code error) {
    if (inference_) inference_->keep(std::move(outgoing_.response));
    inference_.reset();
    incoming_.end();
    outgoing_.end();
    give_back(decoded_);
    release();
    end_answering();
    if (state_ != State::kWriting) return;
    if (error) return close();
    keep_alive_ ? next_request() : linger();
  }

  void linger() {
    state_ = State::kLingering;
    handed_over();
    deadline_ = Clock::now() + server_.options.linger;
    if (!transport_.secure()) return linger_bare();
    // Said, and not waited for: a client that still sends would not answer.
    transport_.async_shutdown([self = shared_from_this()](error_code) {
      if (self->state_ == State::kLingering) self->linger_bare();
    });
  }

  void linger_bare() {
    error_code error;
    transport_.socket().shutdown(Socket::shutdown_send, error);
    if (error || thread_.closing) return close();
    discard();
  }

  void discard() {
    incoming_.discard();
    discarded_.resize(kFirstChunk);
    transport_.socket().async_read_some(net::buffer(discarded_),
                                        [self = shared_from_this()](error_code error, std::size_t) {
                                          if (self->state_ != State::kLingering) return;
                                          if (error) return self->close();
                                          self->discard();
                                        });
  }

  void close() {
    state_ = State::kClosed;
    handed_over();
    transport_.close();
  }

  Transport transport_;
  const Gate gate_;
  const bool passed_;  // through the service manager's socket
  bool to_hand_over_;  // counted as such
  std::uint64_t client_ = 0;
  Socket::endpoint_type peer_;
  ThreadState& thread_;
  ServerState& server_;
  std::list<Connection*>::iterator place_;

  State state_ = State::kReading;
  Clock::time_point deadline_ = Clock::time_point::max();
  Incoming incoming_;
  bool expired_ = false;  // reading took too long

  bool keep_alive_ = true, http_1_0_ = false, head_only_ = false;
  bool watching_ = false, reading_ = false, client_gone_ = false, answering_ = false;
  InferencePool::Lease inference_;
  std::shared_ptr<Session> self_while_inferring_;  // the pipeline holds addresses in here

  // So that a warm server allocates nothing for the way back to the connection's thread.
  std::array<std::byte, 256> handler_bytes_;
  std::pmr::monotonic_buffer_resource handler_memory_{handler_bytes_.data(), handler_bytes_.size()};
  std::exception_ptr failure_;  // of a control job
  std::uint64_t held_ = 0;      // counted in server_.held_bytes

  std::vector<std::byte> ahead_;              // what read_ahead() reads into
  std::vector<std::byte> decoded_;            // the body, where it came in a content coding
  std::vector<std::byte> discarded_;          // while lingering
  std::string more_headers_;                  // of the answer: who may read it
  std::string admin_;                         // who used an admin route with this request
  std::optional<Clock::time_point> arrival_;  // when this request was read to its end

  Outgoing outgoing_;
};

}  // namespace

void start_session(Socket socket, ThreadState& thread, Admission admission, Entrance entrance) {
  std::make_shared<Session>(std::move(socket), thread, std::move(entrance))->start(admission);
}

}  // namespace millrace::server::http
