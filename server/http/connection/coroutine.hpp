// The coroutine that serves one connection, and how it waits.
//
// This is not boost::asio::awaitable: that type allocates a frame for every operation, and it cannot wait for
// a pipeline that completes a frame on another thread.
#pragma once

#include <boost/system/error_code.hpp>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

namespace millrace::server::http {

/// The type of a coroutine that starts when it is called and owns itself. An exception that leaves it ends the
/// process.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// A coroutine that waits. Either resume() is called, or the coroutine is destroyed with this object: an I/O
/// context that ends destroys the handlers that have not run.
class Suspended {
 public:
  Suspended() = default;
  explicit Suspended(std::coroutine_handle<> coroutine) : coroutine_(coroutine) {}
  Suspended(Suspended&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  Suspended& operator=(Suspended&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~Suspended() {
    if (coroutine_) coroutine_.destroy();
  }

  void resume() { std::exchange(coroutine_, nullptr).resume(); }
  /// The coroutine goes on by itself.
  void release() { coroutine_ = nullptr; }

 private:
  std::coroutine_handle<> coroutine_;
};

struct IoResult {
  boost::system::error_code error;
  std::size_t bytes = 0;
};

/// co_await on it calls `start` with a completion handler for Asio, and gives the IoResult.
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

/// co_await on it puts the coroutine into `waiting`, calls `start`, and gives what that returns. If it is false,
/// the coroutine goes on at once, otherwise when somebody resumes `waiting`.
template <class Start>
class UntilResumed {
 public:
  UntilResumed(Suspended& waiting, Start start) : waiting_(waiting), start_(start) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> coroutine) {
    waiting_ = Suspended(coroutine);
    try {
      started_ = start_();
    } catch (...) {
      waiting_.release();
      throw;
    }
    if (!started_) waiting_.release();
    return started_;
  }
  bool await_resume() const noexcept { return started_; }

 private:
  Suspended& waiting_;
  Start start_;
  bool started_ = false;
};

}  // namespace millrace::server::http
