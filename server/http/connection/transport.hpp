// Reads and writes a connection's socket (TCP or Unix, with or without TLS), and lets the connection's coroutine wait
// for the result. Internal to server/http.
//
// The coroutine is not boost::asio::awaitable: that type allocates a frame for every operation, and it cannot wait
// for a pipeline that completes a frame on another thread.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

namespace millrace::server::http {

/// The return type of a coroutine that starts when it is called and frees itself when it ends. An exception that
/// leaves the coroutine ends the process.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// Owns a coroutine that waits for an operation. If resume() is not called, the destructor destroys the coroutine.
/// That happens when an I/O context ends, because it destroys the handlers that have not run.
class Suspended {
 public:
  explicit Suspended(std::coroutine_handle<> coroutine) : coroutine_(coroutine) {}
  Suspended(Suspended&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  ~Suspended() {
    if (coroutine_) coroutine_.destroy();
  }

  void resume() { std::exchange(coroutine_, nullptr).resume(); }

 private:
  std::coroutine_handle<> coroutine_;
};

struct IoResult {
  boost::system::error_code error;
  std::size_t bytes = 0;
};

/// An awaitable: co_await calls `start` with a completion handler for Asio, and returns an IoResult once the handler
/// was called.
template <class Start>
class Operation {
 public:
  explicit Operation(Start start) : start_(start) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) noexcept {
    start_([this, waiting = Suspended(coroutine)](boost::system::error_code error,
                                                  std::size_t bytes = 0) mutable {
      result_ = {error, bytes};
      waiting.resume();
    });
  }
  IoResult await_resume() const noexcept { return result_; }

 private:
  Start start_;
  IoResult result_;
};

/// An awaitable: co_await stores the coroutine in `waiting` and suspends it until somebody resumes `waiting`.
struct UntilResumed {
  std::coroutine_handle<>& waiting;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> coroutine) const noexcept { waiting = coroutine; }
  void await_resume() const noexcept {}
};

using Socket = boost::asio::generic::stream_protocol::socket;

/// A socket with optional TLS. Handlers run on the socket's executor. This object must exist until they have run.
class Transport {
 public:
  using error_code = boost::system::error_code;

  /// If `tls` is null, the connection does not use TLS.
  Transport(Socket socket, std::shared_ptr<boost::asio::ssl::context> tls) : socket_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<Tls>(socket_, std::move(tls));
  }

  bool secure() const { return tls_ != nullptr; }
  Socket& socket() { return socket_; }
  bool is_open() const { return socket_.is_open(); }

  // handshake(), shutdown(), read_some() and write() return awaitables: co_await returns an IoResult.

  /// Performs the TLS handshake. If secure() is true, it must come before any read or write.
  auto handshake() {
    return Operation([this](auto done) {
      tls_->stream.async_handshake(boost::asio::ssl::stream_base::server, std::move(done));
    });
  }
  /// Sends TLS's close_notify and waits for the client's close_notify. secure() must be true.
  auto shutdown() {
    return Operation([this](auto done) { tls_->stream.async_shutdown(std::move(done)); });
  }
  auto read_some(boost::asio::mutable_buffer buffer) {
    return Operation([this, buffer](auto done) { async_read_some(buffer, std::move(done)); });
  }
  template <class Buffers>
  auto write(const Buffers& buffers) {
    return Operation([this, buffers](auto done) {
      tls_ ? boost::asio::async_write(tls_->stream, buffers, std::move(done))
           : boost::asio::async_write(socket_, buffers, std::move(done));
    });
  }

  template <class Handler>
  void async_read_some(boost::asio::mutable_buffer buffer, Handler handler) {
    tls_ ? tls_->stream.async_read_some(buffer, std::move(handler))
         : socket_.async_read_some(buffer, std::move(handler));
  }

  void cancel() {
    error_code ignored;
    socket_.cancel(ignored);
  }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  struct Tls {
    Tls(Socket& socket, std::shared_ptr<boost::asio::ssl::context> of)
        : context(std::move(of)), stream(socket, *context) {}
    std::shared_ptr<boost::asio::ssl::context> context;
    boost::asio::ssl::stream<Socket&> stream;
  };

  Socket socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace millrace::server::http
