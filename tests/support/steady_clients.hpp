// Load on a listening socket that a service manager keeps open while one server after another serves on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace millrace::tests {

/// A listening socket on 127.0.0.1 that stays open during the test. Children inherit it.
class KeptSocket {
 public:
  KeptSocket();  // throws std::runtime_error
  ~KeptSocket();
  KeptSocket(const KeptSocket&) = delete;
  KeptSocket& operator=(const KeptSocket&) = delete;

  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

/// `command`, given the socket under `name` as a service manager would do. The program keeps the process id
/// of the started command.
std::vector<std::string> with_passed_socket(const KeptSocket& socket, const std::string& name,
                                            const std::vector<std::string>& command);

/// Twenty clients that together send 500 requests a second. Each keeps a connection, but sends every fifth
/// request over a new one. A client closes its connection when told to, and never repeats a request.
class SteadyClients {
 public:
  /// Starts to POST `tensor` in raw mode to `target`.
  SteadyClients(std::uint16_t port, const std::string& target, const std::string& tensor);
  ~SteadyClients();  // stops the clients

  void end();
  /// Valid after end().
  std::size_t asked() const;
  /// The outcomes other than an answer with status 200.
  std::multiset<std::string> failures() const;

 private:
  class Client;
  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace::tests
