// An HTTP client with many connections and one thread. It sends requests at fixed times, however long the answers take.
// A latency is measured from the time at which the request was due, so a pause of the server counts for every request
// that it delayed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::bench {

class OpenLoop {
 public:
  using Clock = std::chrono::steady_clock;

  struct Result {
    Clock::time_point due, done;
    std::uint32_t request = 0;  // an index into the constructor's `requests`
    int status = 0;             // 0 if the connection broke
    std::string_view body;      // valid until OnResult returns
  };
  using OnResult = std::function<void(const Result&)>;

  /// Connects to the server. `requests` are whole HTTP requests, which run() sends in turn. A request is sent late if
  /// all `connections` are busy when it is due.
  OpenLoop(std::uint16_t port, std::vector<std::string> requests, std::uint32_t connections,
           OnResult on_result);
  ~OpenLoop();
  OpenLoop(const OpenLoop&) = delete;
  OpenLoop& operator=(const OpenLoop&) = delete;

  /// Sends `per_second` requests a second for `duration`, then waits for the outstanding answers. If `per_second` is 0,
  /// each connection sends a request as soon as the previous answer arrives. Returns the number of requests sent.
  std::uint64_t run(double per_second, std::chrono::milliseconds duration);

 private:
  struct Connection;
  bool connect(Connection& connection);
  void send(Connection& connection, Clock::time_point due);
  void readable(Connection& connection);
  void finish(Connection& connection, int status, std::string_view body);
  void wait(std::chrono::milliseconds bound);

  const std::uint16_t port_;
  const std::vector<std::string> requests_;
  const OnResult on_result_;
  int poll_ = -1;
  std::vector<Connection> connections_;
  std::vector<std::uint32_t> free_;
  std::uint64_t sent_ = 0;
};

}  // namespace millrace::bench
