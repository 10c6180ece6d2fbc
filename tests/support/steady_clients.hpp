// Load on a listening socket that a service manager keeps while one server after another serves on it.
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

/// A listening socket of 127.0.0.1 that lives as long as the test. Children inherit it.
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

/// `command` with the socket as a service manager passes it, under `name`. The program that runs has the
/// process id of what is started.
std::vector<std::string> with_passed_socket(const KeptSocket& socket, const std::string& name,
                                            const std::vector<std::string>& command);

/// Twenty clients that together send 500 requests a second: each over a connection that it keeps, every fifth
/// over a new one each time. A client closes its connection when told to, and sends no request twice.
class SteadyClients {
 public:
  /// POSTs `tensor` in raw mode to `target`.
  SteadyClients(std::uint16_t port, const std::string& target, const std::string& tensor);
  ~SteadyClients();  // ends them

  void end();
  /// Once they have ended.
  std::size_t asked() const;
  /// What came in the place of an answer with 200.
  std::multiset<std::string> failures() const;

 private:
  class Client;
  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace::tests
