// A test fixture with a UDP listener, a fake pipeline behind it, and client objects.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/client.hpp"
#include "server/udp/listener.hpp"
#include "server/udp/wire/bytes.hpp"
#include "tests/support/wait.hpp"
#include "tests/unit/server/udp/fakes.hpp"
#include "tests/unit/server/udp/lossy_channel.hpp"

namespace millrace::server::udp {

using namespace std::chrono_literals;
using client::Client;
using client::Code;
using tests::Badness;
using tests::Bytes;
using tests::FakeDirectory;
using tests::FakePipeline;
using tests::LossyChannel;
using tests::pattern;

/// Returns how many datagrams the listener dropped without an answer, over all reasons.
inline std::uint64_t dropped(const Counters& counters) {
  std::uint64_t all = 0;
  for (std::size_t i = 1; i < wire::kRefusalNames.size(); ++i)
    all += counters.get(static_cast<wire::Refusal>(i));
  for (std::size_t i = 0; i < kDropNames.size(); ++i) all += counters.get(static_cast<Drop>(i));
  return all;
}

class UdpClients : public ::testing::Test {
 protected:
  void serve(FakePipeline::Mode mode, std::vector<std::uint32_t> inputs, std::vector<std::uint32_t> outputs,
             bool with_keys = false, std::uint16_t port = 0) {
    pipeline = std::make_unique<FakePipeline>(mode, std::move(inputs), std::move(outputs));
    directory = std::make_unique<FakeDirectory>(*pipeline);
    restart(with_keys, port);
  }
  void restart(bool with_keys, std::uint16_t port) {
    wire::KeyRing keys;
    if (with_keys) {
      ASSERT_TRUE(keys.add(3, secret).ok());
    }
    ListenerOptions listen;
    listen.port = port;
    listen.engine = options;
    listener.reset();
    auto started = tests::start_listener(listen, std::move(keys), *directory);
    ASSERT_TRUE(started.ok()) << started.error().message();
    listener = std::move(started).value();
  }
  static std::string url(std::uint16_t port) { return "udp://127.0.0.1:" + std::to_string(port); }

  /// Returns options for a lossless network: the client waits for slow answers and does not repeat a request.
  static client::Options patient() {
    client::Options options;
    options.timeout = 60s;
    options.retry = 5s;
    return options;
  }

  /// Connects a client. Tries up to 20 times, because a bad network may lose the HELLO message.
  static std::unique_ptr<Client> connected(const std::string& to, const client::Options& with) {
    std::unique_ptr<Client> out;
    client::Status s;
    for (int attempt = 0; attempt < 20; ++attempt)
      if (s = client::connect(to, with, out); s.ok()) return out;
    ADD_FAILURE() << s.message;
    return nullptr;
  }

  template <class Condition>
  static bool eventually(Condition holds, std::chrono::milliseconds bound = 60s) {
    return tests::wait_until(holds, bound);
  }

  struct Tally {
    std::atomic<int> right{0}, wrong{0}, failed{0}, expired{0}, late{0};
  };
  /// Sends `requests` requests from each of `clients` threads and counts the outcomes in `tally`. A request must get
  /// the right answer or fail by its deadline.
  void hammer(const std::string& to, const client::Options& with, int clients, int requests, std::uint32_t in,
              std::uint32_t out, std::uint64_t seed, Tally& tally) const {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c)
      threads.emplace_back([&, c] {
        const auto one = connected(to, with);
        if (!one) return;
        std::vector<Bytes> outputs;
        for (int i = 0; i < requests; ++i) {
          Bytes input = pattern(in, seed + static_cast<std::uint64_t>(i * 100 + c));
          wire::store<std::uint64_t>(input, 0, (seed << 32U) + static_cast<std::uint64_t>(i * 100 + c));
          Bytes expected(out);
          tests::compute(input, expected);
          const auto start = std::chrono::steady_clock::now();
          const client::Status s = one->infer("fake", "", {{input}}, kDeadline, outputs);
          if (std::chrono::steady_clock::now() - start > kDeadline + 10s) ++tally.late;
          if (s.code == Code::kDeadline) ++tally.expired;
          if (!s.ok())
            ++tally.failed;
          else if (outputs.size() == 1 && outputs[0] == expected)
            ++tally.right;
          else
            ++tally.wrong;
        }
      });
  }

  /// Returns options for a bad network. The client repeats requests rarely, because repetitions delay answers.
  client::Options enduring() {
    client::Options with;
    with.timeout = 60s;
    with.retry = 100ms;
    return with;
  }

  static constexpr auto kDeadline = 30s;
  const Bytes secret = pattern(32, 99);
  EngineOptions options;
  std::unique_ptr<FakePipeline> pipeline;
  std::unique_ptr<FakeDirectory> directory;
  std::unique_ptr<Listener> listener;
};

}  // namespace millrace::server::udp
