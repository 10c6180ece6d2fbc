// Clients that send requests to a server while the versions in its repository change.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests {

inline kernels::Program base() {
  return chain_program(6);
}

/// Clients, one thread each, that send one request after the other and count the outcomes.
class Clients {
 public:
  Clients(const RepositoryHost& host, int count) {
    for (int c = 0; c < count; ++c)
      threads_.emplace_back([this, &host, c](const std::stop_token& stop) {
        HttpConnection connection(host.port());
        for (std::uint32_t i = 0; !stop.stop_requested(); ++i) {
          const Answer answer =
              host.ask(connection, host.frame(static_cast<std::uint32_t>(c) * 100 + i % 10));
          ++all;
          if (answer.status != 200) {
            ++failed;
            last_status = answer.status;
            if (answer.status == 0) return;
          } else if (!answer.right) {
            ++wrong;
          }
        }
      });
  }
  void end() {
    for (auto& thread : threads_) thread.request_stop();
    threads_.clear();
  }
  void wait_for(int more) const {
    const int until = all + more;
    EXPECT_TRUE(wait_until([&] { return all >= until || failed > 0; }));
  }

  std::atomic<int> all{0}, failed{0}, wrong{0}, last_status{0};

 private:
  std::vector<std::jthread> threads_;
};

}  // namespace millrace::tests
