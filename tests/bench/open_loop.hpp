// A client with many connections and one thread that sends requests on time, however long the answers take.
// Latencies count from the moment a request was due, so a pause counts for every request that it delayed.
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
    std::uint32_t request = 0;  // index into the requests
    int status = 0;             // 0 if the connection broke
    std::string_view body;      // valid until the callback returns
  };
  using OnResult = std::function<void(const Result&)>;

  /// `requests` are whole HTTP requests, which are sent in turn. If all `connections` are busy, requests are
  /// sent late.
  OpenLoop(std::uint16_t port, std::vector<std::string> requests, std::uint32_t connections,
           OnResult on_result);
  ~OpenLoop();
  OpenLoop(const OpenLoop&) = delete;
  OpenLoop& operator=(const OpenLoop&) = delete;

  /// Sends `per_second` requests for the given time, or as fast as answers come on all connections if
  /// `per_second` is 0. Then waits for the outstanding answers. Returns the number of requests sent.
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
