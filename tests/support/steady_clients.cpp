#include "tests/support/steady_clients.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/support/http.hpp"

namespace millrace::tests {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kRaw = "Inference-Header-Content-Length: 0\r\n";
constexpr int kClients = 20, kRequestsASecond = 500;

}  // namespace

KeptSocket::KeptSocket() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof at;
  if (::bind(fd_, reinterpret_cast<const sockaddr*>(&at), length) != 0 || ::listen(fd_, SOMAXCONN) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length) != 0) {
    ::close(fd_);
    throw std::runtime_error("cannot listen on 127.0.0.1");
  }
  port_ = ntohs(at.sin_port);
}

KeptSocket::~KeptSocket() {
  ::close(fd_);
}

std::vector<std::string> with_passed_socket(const KeptSocket& socket, const std::string& name,
                                            const std::vector<std::string>& command) {
  std::vector<std::string> words = {"sh", "-c",
                                    "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=" + name +
                                        "; exec \"$0\" \"$@\" 3<&" + std::to_string(socket.fd())};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

class SteadyClients::Client {
 public:
  Client(std::uint16_t port, std::string target, std::string tensor, bool fresh)
      : port_(port), target_(std::move(target)), tensor_(std::move(tensor)), fresh_(fresh) {}

  /// Sends requests until `stop` is true.
  void run(const std::atomic<bool>& stop) {
    auto next = Clock::now();
    while (!stop) {
      std::this_thread::sleep_until(next);
      next = std::max(next + 1000ms * kClients / kRequestsASecond, Clock::now() - 1s);
      ask();
    }
  }

  std::size_t asked = 0;
  std::multiset<std::string> failures;

 private:
  void ask() {
    if (!connection_) connection_ = std::make_unique<HttpConnection>(port_, 60s);
    const auto answer = connection_->request("POST", target_, tensor_, kRaw);
    ++asked;
    if (!answer)
      failures.insert("the connection ended");
    else if (answer->status != 200)
      failures.insert(std::to_string(answer->status) + " " + answer->body);
    if (fresh_ || !answer || answer->headers.contains("connection")) connection_.reset();
  }

  const std::uint16_t port_;
  const std::string target_, tensor_;
  const bool fresh_;
  std::unique_ptr<HttpConnection> connection_;
};

SteadyClients::SteadyClients(std::uint16_t port, const std::string& target, const std::string& tensor) {
  for (int i = 0; i < kClients; ++i)
    clients_.push_back(std::make_unique<Client>(port, target, tensor, i % 5 == 0));
  for (const auto& client : clients_) threads_.emplace_back([this, &client] { client->run(stop_); });
}

SteadyClients::~SteadyClients() {
  end();
}

void SteadyClients::end() {
  stop_ = true;
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

std::size_t SteadyClients::asked() const {
  std::size_t sum = 0;
  for (const auto& client : clients_) sum += client->asked;
  return sum;
}

std::multiset<std::string> SteadyClients::failures() const {
  std::multiset<std::string> all;
  for (const auto& client : clients_) all.insert(client->failures.begin(), client->failures.end());
  return all;
}

}  // namespace millrace::tests
