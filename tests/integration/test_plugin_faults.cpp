// The code of a plugin fails, crashes or hangs while it computes a frame: on an emulated card behind a server, and in
// `millrace verify`. tests/unit/compiler/test_plugin_library.cpp has the faults of a plugin while a model is compiled.
#include <csignal>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "onnx_model.hpp"
#include "plan_command.hpp"
#include "runtime/base/npy.hpp"
#include "tests/support/http.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_plugin_faults {
namespace {

constexpr int kElements = 8;
constexpr double kScale = 0.5;

/// A server, and a model whose Relu the faulty plugin computes. The first integer of a frame tells the plugin what to do.
class PluginFaults : public PlanCommand {
 protected:
  void SetUp() override {
    OnnxModel m;
    m.input("x", {1, kElements});
    const std::string x = m.pair("x", kScale, 0, "xq");
    m.node("Relu", {x}, "r");
    m.output(m.pair("r", kScale, 0, "y"));
    ASSERT_TRUE(write_new_file(model_, m.bytes()).ok());
    const Outcome made = run_program({millrace_binary(), "compile", model_, "--cluster",
                                      (kSource / "configs/clusters/one-ku060.yaml").string(), "--plugins",
                                      FAULTY_PLUGIN, "--name", "relu", "-o", deployment_},
                                     environment_);
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  static json::array frame(int first) {
    json::array data(kElements, 0.0);
    data[0] = first * kScale;
    data[1] = -kScale;
    data[2] = kScale;
    return data;
  }

  const std::string model_ = file("relu.onnx"), deployment_ = file("deployment");
  const std::vector<std::string> environment_{"MILLRACE_CACHE=" + file("cache"), "MILLRACE_FAULT=run"};
};

class ServedPluginFaults : public PluginFaults {
 protected:
  void SetUp() override {
    PluginFaults::SetUp();
    if (!HasFatalFailure()) serve({});
  }
  void serve(const std::vector<std::string>& more) {
    std::vector<std::string> words{millrace_binary(), "serve",  "--deployment",
                                   deployment_,       "--http", "127.0.0.1:0",
                                   "--warmup-frames", "0",      "--allow-plugins"};
    words.insert(words.end(), more.begin(), more.end());
    server_.emplace(words, environment_);
    const auto address = server_->wait_for_line("listening http ", std::chrono::seconds(60));
    ASSERT_TRUE(address.has_value()) << server_->err();
    address_ = *address;
  }

  std::optional<HttpResponse> infer(int first) const {
    HttpConnection connection(address_);
    const json::object input{
        {"name", "x"}, {"datatype", "FP32"}, {"shape", {1, kElements}}, {"data", frame(first)}};
    return connection.request("POST", "/v2/models/relu/infer",
                              json::serialize(json::object{{"inputs", {input}}}),
                              "Content-Type: application/json\r\n");
  }
  /// Expects that a good frame is answered with Relu's values, when the card works again.
  void expect_next_frame() {
    std::optional<HttpResponse> answer;
    ASSERT_TRUE(wait_until([&] {
      answer = infer(7);
      return answer.has_value() && answer->status == 200;
    })) << server_->err();
    const json::value parsed = json::parse(answer->body);
    std::vector<double> values;
    for (const json::value& element : parsed.at("outputs").at(0).at("data").as_array())
      values.push_back(element.to_number<double>());
    EXPECT_EQ(values, (std::vector{7 * kScale, 0.0, kScale, 0.0, 0.0, 0.0, 0.0, 0.0})) << answer->body;
  }
  /// Sends a frame with which the plugin does what `first` says. Expects 503 and, in the server's log, `words`.
  void expect_loss(int first, const std::string& words) {
    const auto lost = infer(first);
    ASSERT_TRUE(lost.has_value());
    EXPECT_EQ(lost->status, 503) << lost->body;
    EXPECT_TRUE(wait_until([&] { return server_->err().find(words) != std::string::npos; }))
        << server_->err();
    expect_next_frame();
  }

  std::optional<BackgroundProgram> server_;
  std::string address_;
};

TEST_F(ServedPluginFaults, ErrorNamesThePluginThatFailedAndTheNextFrameIsServed) {
  expect_next_frame();
  expect_loss(1, "plugin 'faulty', block 'relu': run() returned 1: this plugin cannot compute");
  expect_loss(2, "plugin 'faulty', block 'relu': run() threw an exception: out of cheese");
  EXPECT_EQ(server_->stop(SIGTERM), 0);
}

TEST_F(ServedPluginFaults, FailureOfAPluginLosesOnlyOneFrameOnCardsThatRunAtTheSpeedOfHardware) {
  EXPECT_EQ(server_->stop(SIGTERM), 0);
  serve({"--pace=1"});
  expect_next_frame();
  expect_loss(1, "plugin 'faulty', block 'relu': run() returned 1: this plugin cannot compute");
  expect_loss(2, "plugin 'faulty', block 'relu': run() threw an exception: out of cheese");
  // The card process has survived, so the card was not loaded again.
  EXPECT_EQ(server_->err().find("is lost"), std::string::npos) << server_->err();
  EXPECT_EQ(server_->stop(SIGTERM), 0);
}

TEST_F(ServedPluginFaults, CrashOrHangOfAPluginFailsOnlyTheFrameThatItComputes) {
  expect_loss(3, "is lost");
  expect_loss(4, "");
  EXPECT_EQ(server_->stop(SIGTERM), 0);
}

TEST_F(PluginFaults, VerifyErrorNamesThePluginAndTheBlockThatFailed) {
  const auto verified = [&](int first, const std::string& fault = "run") {
    NpyArray frames{"<f4", {1, kElements}, {}};
    for (const json::value& element : frame(first)) {
      const auto number = element.to_number<float>();
      const auto bytes = std::as_bytes(std::span(&number, 1));
      frames.data.insert(frames.data.end(), bytes.begin(), bytes.end());
    }
    EXPECT_TRUE(write_npy(file("frame.npy"), frames).ok());
    return run_program(
        {millrace_binary(), "verify", deployment_, "--allow-plugins", "--inputs", file("frame.npy")},
        {environment_[0], "MILLRACE_FAULT=" + fault});
  };
  const std::string where = "plugin 'faulty', block 'relu': run() ",
                    remedy = "correct the plugin and compile";
  const Outcome good = verified(7);
  EXPECT_EQ(good.exit_code, 0) << good.err;
  expect_error(verified(1), 2, {where + "returned 1: this plugin cannot compute", remedy});
  expect_error(verified(2), 2, {where + "threw an exception: out of cheese", remedy});
  expect_error(verified(3), 2, {where + "ended the process with signal 6", remedy});
  expect_error(verified(4), 2, {where + "did not return within 10 s", remedy});
  expect_error(
      verified(7, "crash_factory"), 2,
      {"plugin 'faulty', block 'relu': the code that loads its library ended the process with signal 6",
       remedy});
}

}  // namespace
}  // namespace millrace::tests::test_plugin_faults
