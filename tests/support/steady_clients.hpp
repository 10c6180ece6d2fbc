// Keeps load on a listening socket that stays open while one server process after another accepts connections on it, as
// under a service manager.
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

/// A listening socket on 127.0.0.1 that stays open during the test. Child processes inherit the socket.
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

/// Returns a command line that runs `command` with the socket passed under `name`, as a service manager would pass it.
/// The program keeps the process id of the command that starts it.
std::vector<std::string> with_passed_socket(const KeptSocket& socket, const std::string& name,
                                            const std::vector<std::string>& command);

/// Twenty clients that together send 500 requests a second. Each client keeps a connection open, but opens a new one
/// for every fifth request. It closes its connection when the server asks for that, and never repeats a request.
class SteadyClients {
 public:
  /// Starts the clients: each POSTs `tensor` in raw mode to `target`.
  SteadyClients(std::uint16_t port, const std::string& target, const std::string& tensor);
  ~SteadyClients();  // stops the clients

  void end();
  /// Returns how many requests were sent. Valid after end().
  std::size_t asked() const;
  /// Returns every outcome other than an answer with status 200. Valid after end().
  std::multiset<std::string> failures() const;

 private:
  class Client;
  std::atomic<bool> stop_ = false;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::thread> threads_;
};

}  // namespace millrace::tests
