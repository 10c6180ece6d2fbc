// Tests emulated cards that keep the pace of the hardware. Only lower bounds of times are tested, because a busy machine
// may delay anything. tests/bench/bench_pace compares the times with the prediction.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <chrono>
#include <fstream>

#include "runtime/base/file.hpp"
#include "runtime/emulator/card/pacer.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests::test_pace {
namespace {

namespace fs = std::filesystem;
using runtime::emulator::FrameKey;
using runtime::emulator::Pacer;
using std::chrono_literals::operator""s;

TEST(Pacer, IsOffForAPartitionWithoutPredictedTimes) {
  EXPECT_FALSE(Pacer({0, 500}, 10, {4}).has_pace());
  EXPECT_FALSE(Pacer({100, 500}, 0, {4}).has_pace());
  EXPECT_TRUE(Pacer({100, 500}, 1, {4}).has_pace());
}

TEST(Pacer, StartsFramesOneIntervalApartAndReleasesEachAfterTheLatency) {
  Pacer pacer({100, 250}, 10, {4, 8});
  EXPECT_EQ(pacer.begin_of(5000), 5000U);
  const auto& first = pacer.take({1, 1}, 5000);
  EXPECT_EQ(first.due, 7500U);
  ASSERT_EQ(first.outputs.size(), 2U);
  EXPECT_EQ(first.outputs[1].size(), 8U);
  EXPECT_EQ(pacer.begin_of(5200), 6000U) << "one interval after the previous frame";
  EXPECT_EQ(pacer.begin_of(6400), 6400U) << "the frame arrives later";
  EXPECT_EQ(pacer.take({1, 2}, 6000).due, 8500U);
  EXPECT_EQ(pacer.oldest()->key, (FrameKey{1, 1}));
  pacer.remove_oldest(7500);
  EXPECT_EQ(pacer.begin_of(6500), 7000U) << "the pacer was not full";
  EXPECT_EQ(pacer.oldest()->key, (FrameKey{1, 2}));
}

TEST(Pacer, HoldsOneFrameMoreThanAreInTheHardwarePipelineAtOnce) {
  Pacer pacer({100, 250}, 1, {4});  // three frames are in the pipeline at a time
  for (std::uint64_t frame = 0; frame < 4; ++frame) {
    EXPECT_FALSE(pacer.is_full()) << frame;
    pacer.take({1, frame}, 100 * frame);
  }
  EXPECT_TRUE(pacer.is_full());
  pacer.remove_oldest(900);
  EXPECT_FALSE(pacer.is_full());
  EXPECT_EQ(pacer.begin_of(400), 900U) << "there was no room before";
}

TEST(Pacer, SkipsDroppedFrames) {
  Pacer pacer({100, 250}, 1, {4});
  pacer.take({1, 1}, 0);
  pacer.take({2, 2}, 100);
  pacer.take({1, 3}, 200);
  pacer.drop([](const FrameKey& key) { return key.epoch == 2; });
  ASSERT_NE(pacer.oldest(), nullptr);
  EXPECT_EQ(pacer.oldest()->key, (FrameKey{2, 2}));
  pacer.remove_oldest(0);
  EXPECT_EQ(pacer.oldest(), nullptr);
}

class Pace : public testing::Test {
 protected:
  void SetUp() override {
    const Outcome compiled =
        run_program({millrace_binary(), "compile",
                     (kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string(), "--name",
                     "net", "--cluster", kCluster, "--partitions", "3", "--json", "-o", deployment()});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    latency_ = 1e-6 * boost::json::parse(compiled.out).at("predicted").at("latency_us").to_number<double>();
  }
  std::string deployment() const { return (directory_.path() / "net").string(); }
  Outcome serve(const std::string& cluster, const std::vector<std::string>& more) const {
    std::vector<std::string> command{millrace_binary(), "serve",       "--deployment", deployment(),
                                     "--http",          "127.0.0.1:0", "--cluster",    cluster};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }

  const fs::path kSource = tests::source_dir();
  const std::string kCluster = (kSource / "configs/clusters/three-ku060.yaml").string();
  TemporaryDirectory directory_{"millrace-pace"};
  double latency_ = 0;  // as predicted, in seconds
};

TEST_F(Pace, FramesTakeAtLeastThePredictedLatencyTimesThePaceFactor) {
  constexpr int kFactor = 2000;
  BackgroundProgram server({millrace_binary(), "serve", "--deployment", deployment(), "--http", "127.0.0.1:0",
                            "--cluster", kCluster, "--pace=" + std::to_string(kFactor)});
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  ASSERT_TRUE(connection.connected());
  for (int frame = 0; frame < 3; ++frame) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answer =
        connection.request("POST", "/v2/models/net/infer", std::string(28 * 28 * sizeof(float), '\0'),
                           "Inference-Header-Content-Length: 0\r\n");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(answer) << server.err();
    ASSERT_EQ(answer->status, 200) << answer->body;
    EXPECT_GE(took.count(), 0.95 * latency_ * kFactor);
  }
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

TEST_F(Pace, OptionIsRefusedForFactorsBelowOneAndForRealOrSimulatedCards) {
  for (const char* factor : {"0", "0.5", "-1", "1000001"}) {
    const Outcome outcome = serve(kCluster, {std::string("--pace=") + factor});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("--pace"), std::string::npos) << outcome.err;
  }
  const Outcome simulated = serve(kCluster, {"--pace", "--fidelity", "rtl"});
  EXPECT_EQ(simulated.exit_code, 2) << simulated.err;
  EXPECT_NE(simulated.err.find("leave out --pace"), std::string::npos) << simulated.err;
  fs::create_directories(directory_.path() / "clusters");
  fs::create_directory_symlink(kSource / "configs/devices", directory_.path() / "devices");
  const fs::path real = directory_.path() / "clusters/real.yaml";
  std::ofstream out(real);
  out << "schema: 1\ncards:\n";
  for (int i = 0; i < 3; ++i)
    out << "  - {name: fpga" << i << ", device: u280, bdf: \"0000:0" << i + 1 << ":00.1\"}\n";
  out << "cables:\n";
  for (int i = 0; i < 2; ++i)
    out << "  - {a: {card: fpga" << i << ", connector: 1}, b: {card: fpga" << i + 1
        << ", connector: 0}, gigabits_per_second: 10}\n";
  out.close();
  const Outcome on_real = serve(real.string(), {"--pace=10"});
  EXPECT_EQ(on_real.exit_code, 2) << on_real.err;
  EXPECT_NE(on_real.err.find("run at their own pace"), std::string::npos) << on_real.err;
}

}  // namespace
}  // namespace millrace::tests::test_pace
