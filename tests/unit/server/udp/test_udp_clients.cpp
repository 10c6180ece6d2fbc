// Tests the real clients with the real listener over loopback, often with a bad network between them.
#include <gtest/gtest.h>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/server/udp/udp_clients_fixture.hpp"

namespace millrace::server::udp::test_udp_clients {
namespace {

TEST_F(UdpClients, MessagesOfOneAndOfManyFragmentsAreCorrect) {
  for (const std::uint32_t size : {1U, 1200U, 1201U, 16384U, 300U * 1200U}) {
    for (const auto mode : {FakePipeline::Mode::kInline, FakePipeline::Mode::kThread}) {
      listener.reset();
      serve(mode, {size}, {size + 7});
      client::Options with = patient();
      with.retry = 100ms;  // the largest message overflows a socket, so fragments are sent again
      const auto one = connected(url(listener->port()), with);
      ASSERT_NE(one, nullptr);
      ASSERT_TRUE(one->ready().ok());
      client::ModelInfo info;
      ASSERT_TRUE(one->model("fake", "", info).ok());
      ASSERT_EQ(info.inputs.size(), 1U);
      EXPECT_EQ(info.inputs[0].bytes(), size);
      std::vector<Bytes> outputs;
      for (std::uint64_t i = 0; i < 20; ++i) {
        const Bytes input = pattern(size, i);
        Bytes expected(size + 7);
        tests::compute(input, expected);
        const client::Status s = one->infer("fake", "", {{input}}, 60s, outputs);
        ASSERT_TRUE(s.ok()) << s.message << ", " << size << " bytes";
        ASSERT_EQ(outputs[0], expected);
      }
      EXPECT_EQ(pipeline->submitted(), 20U);
    }
  }
}

TEST_F(UdpClients, SeveralTensorsKeepTheirOrderAtEveryFragmentSize) {
  for (const unsigned fragment : {256U, 1200U, 9000U, 65000U}) {
    listener.reset();
    options.fragment_bytes = fragment;
    serve(FakePipeline::Mode::kInline, {1000, 1, 30000}, {10, 20000});
    client::Options with = patient();
    with.retry = 100ms;
    with.fragment_bytes = static_cast<std::uint16_t>(fragment);
    const auto one = connected(url(listener->port()), with);
    ASSERT_NE(one, nullptr);
    const Bytes a = pattern(1000, 1), b = pattern(1, 2), c = pattern(30000, 3);
    Bytes all = a;
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    Bytes first(10), second(20000);
    tests::compute(all, first);
    tests::compute(all, second);
    std::vector<Bytes> outputs;
    const client::Status s = one->infer("fake", "1", {{a}, {b}, {c}}, 60s, outputs);
    ASSERT_TRUE(s.ok()) << s.message;
    EXPECT_EQ(outputs, (std::vector<Bytes>{first, second}));
  }
}

class UdpClientsOnABadChannel : public UdpClients, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(UdpClientsOnABadChannel, EveryRequestEndsByItsDeadlineAndRunsAtMostOnce) {
  const std::uint32_t size = GetParam();
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {size}, {size});
  const auto channel = LossyChannel::open(listener->port(), Badness{0.1, 0.1, 0.3, 0, 3000}, seed);
  Tally tally;
  hammer(url(channel->port()), enduring(), 4, 60, size, size, seed, tally);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.late, 0);
  EXPECT_EQ(tally.right + tally.failed, 240);
  EXPECT_GE(tally.right, 220) << "one in ten is lost each way; repetitions should find a way";
  EXPECT_EQ(pipeline->most_executions(), 1U);
  EXPECT_GT(channel->lost(), 0U);
  EXPECT_GT(channel->duplicated(), 0U);
  EXPECT_GT(channel->delayed(), 0U);
}
INSTANTIATE_TEST_SUITE_P(Sizes, UdpClientsOnABadChannel, ::testing::Values(100U, 5000U, 120000U));

// The network loses several NACKs in a row. The missing fragments come after the first burst; without a NACK, the
// server repeats only the first burst.
TEST_F(UdpClients, ClientAsksForMissingFragmentsWhileTheServerAnswers) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {1000}, {120000});
  const auto channel = LossyChannel::open(listener->port(), Badness{0.4, 0.1, 0.3, 0, 3000}, seed);
  client::Options with = enduring();
  with.retry = 30ms;
  Tally tally;
  hammer(url(channel->port()), with, 4, 10, 1000, 120000, seed, tally);
  EXPECT_EQ(tally.expired, 0) << "an answer that had begun was never completed";
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GT(tally.right, 0);
}

TEST_F(UdpClients, AuthenticationTagsRevealCorruptedDatagrams) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {4000}, {4000}, true);
  const auto channel = LossyChannel::open(listener->port(), Badness{0.03, 0.1, 0.2, 0.05, 2000}, seed);
  client::Options with = enduring();
  with.key_id = 3;
  with.key = secret;
  Tally tally;
  hammer(url(channel->port()), with, 4, 60, 4000, 4000, seed, tally);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.late, 0);
  EXPECT_GE(tally.right, 220);
  EXPECT_EQ(pipeline->most_executions(), 1U);
  EXPECT_GT(channel->corrupted(), 0U);
  EXPECT_GT(dropped(listener->counters()), 0U);
}

TEST_F(UdpClients, PythonClientReceivesTheSameOutputsOverALossyChannel) {
  const std::uint64_t seed = tests::chosen_seed() & 0xFFFFFFU;
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  serve(FakePipeline::Mode::kThread, {5000}, {90000}, true);
  const auto channel = LossyChannel::open(listener->port(), Badness{0.05, 0.1, 0.2, 0.03, 2000}, seed);
  const tests::Outcome run = tests::run_program(
      {"python3", std::string(tests::source_dir()) + "/tests/unit/server/udp/drive_client.py",
       url(channel->port()), std::to_string(seed), "60", "30", "5000", "90000", "3", to_hex(secret)},
      {}, 300s);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NE(run.out.find("\"wrong\": 0"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("[\"in0\", \"UINT8\", [1, 5000]]"), std::string::npos) << run.out;
  const std::size_t at = run.out.find("\"right\": ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stoi(run.out.substr(at + 9)), 50) << run.out;
  EXPECT_EQ(pipeline->most_executions(), 1U);
}

TEST_F(UdpClients, PythonClientRunsAsACommandLineProgram) {
  serve(FakePipeline::Mode::kInline, {300}, {10});
  const TemporaryDirectory scratch("udp-python");
  const Bytes input = pattern(600, 1);
  ASSERT_TRUE(write_npy(scratch.path() / "x.npy", {"|u1", {2, 300}, input}).ok());
  const std::string out = scratch.path() / "y.npy";
  const tests::Outcome run = tests::run_python_client({"--url", url(listener->port()), "--model", "fake",
                                                       "--input", scratch.path() / "x.npy", "--output", out});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  auto read = read_npy(out);
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->shape, (std::vector<std::uint64_t>{2, 10}));
  Bytes expected(20);
  tests::compute(std::span(input).first(300), std::span(expected).first(10));
  tests::compute(std::span(input).subspan(300), std::span(expected).subspan(10));
  EXPECT_EQ(read->data, expected);
  const tests::Outcome bad =
      tests::run_python_client({"--url", url(listener->port()), "--model", "other", "--input", out});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("no model 'other'"), std::string::npos) << bad.err;
}

TEST_F(UdpClients, PythonClientUsesArraysIfNumpyIsInstalled) {
  serve(FakePipeline::Mode::kInline, {300, 20}, {10, 40});
  tests::expect_arrays_over(url(listener->port()));
}

TEST_F(UdpClients, ErrorCodesDistinguishWrongModelVersionInputAndDeadline) {
  serve(FakePipeline::Mode::kManual, {100}, {100});
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::vector<Bytes> outputs;
  const Bytes right = pattern(100, 1), wrong = pattern(99, 1);
  EXPECT_EQ(one->infer("other", "", {{right}}, 60s, outputs).code, Code::kNotFound);
  EXPECT_EQ(one->infer("fake", "2", {{right}}, 60s, outputs).code, Code::kNotFound);
  EXPECT_EQ(one->infer("fake", "", {{wrong}}, 60s, outputs).code, Code::kInvalid);
  EXPECT_EQ(one->infer("fake", "", {{right}, {right}}, 60s, outputs).code, Code::kInvalid);
  // The pipeline never answers. Retry with more time, because on a busy machine the deadline may pass before the
  // request is sent.
  for (auto within = 60ms; pipeline->submitted() == 0 && within < 60s; within *= 2)
    EXPECT_EQ(one->infer("fake", "", {{right}}, within, outputs).code, Code::kDeadline);
  EXPECT_TRUE(pipeline->complete_one());
  pipeline->capacity = 0;
  EXPECT_EQ(one->infer("fake", "", {{right}}, 500ms, outputs).code, Code::kBusy);
  pipeline->refusal = Error(ErrorCode::kUnavailable, "card lost");
  EXPECT_EQ(one->infer("fake", "", {{right}}, 60s, outputs).code, Code::kUnavailable);

  const std::uint16_t port = listener->port();
  const auto other = connected(url(port), {});
  ASSERT_NE(other, nullptr);
  client::ModelInfo known;
  ASSERT_TRUE(other->model("fake", "", known).ok());
  listener.reset();
  const client::Status gone = other->infer("fake", "", {{right}}, 60s, outputs);
  EXPECT_EQ(gone.code, Code::kUnavailable) << gone.message;
  std::unique_ptr<Client> none;
  const client::Status refused = client::connect(url(port), {}, none);
  EXPECT_EQ(refused.code, Code::kUnavailable);
  EXPECT_NE(refused.message.find("nothing listens"), std::string::npos) << refused.message;
  for (const char* bad : {"", "udp://", "udp://127.0.0.1", "udp://127.0.0.1:0", "udp://127.0.0.1:65536",
                          "udp://::1:8000", "ftp://x:1", "https://x:0", "unix:"})
    EXPECT_EQ(client::connect(bad, {}, none).code, Code::kInvalid) << bad;
}

TEST_F(UdpClients, ClientContinuesAfterAModelIsReplacedAndTheServerRestarts) {
  serve(FakePipeline::Mode::kInline, {100}, {100});
  const auto one = connected(url(listener->port()), patient());
  ASSERT_NE(one, nullptr);
  std::vector<Bytes> outputs;
  const Bytes input = pattern(100, 1);
  ASSERT_TRUE(one->infer("fake", "", {{input}}, 60s, outputs).ok());
  directory->replace();
  ASSERT_TRUE(one->infer("fake", "", {{input}}, 60s, outputs).ok());
  EXPECT_EQ(listener->counters().get(wire::ErrCode::kGeneration), 1U);
  restart(false, listener->port());
  ASSERT_TRUE(one->infer("fake", "", {{input}}, 60s, outputs).ok());
  EXPECT_EQ(listener->counters().get(wire::ErrCode::kNoSession), 1U);
}

TEST_F(UdpClients, ARequestWithAWrongKeyIsNotAnswered) {
  serve(FakePipeline::Mode::kInline, {100}, {100}, true);
  client::Options with;
  with.timeout = 1s;  // enough for twelve tries, or for four on a busy machine
  std::unique_ptr<Client> none;
  EXPECT_EQ(client::connect(url(listener->port()), with, none).code, Code::kUnavailable);
  with.key_id = 3;
  with.key = pattern(32, 1);
  EXPECT_EQ(client::connect(url(listener->port()), with, none).code, Code::kUnavailable);
  EXPECT_TRUE(eventually([&] { return listener->counters().get(Drop::kTag) >= 8U; }));
  EXPECT_EQ(listener->counters().get(Event::kDatagramsSent), 0U);
  with.key.resize(15);
  EXPECT_EQ(client::connect(url(listener->port()), with, none).code, Code::kInvalid);
}

}  // namespace
}  // namespace millrace::server::udp::test_udp_clients
