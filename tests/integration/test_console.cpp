// Tests the server's console page in a real browser. tests/node/console.mjs drives Chromium, and the server
// runs LeNet-5 on three cards under load. Screenshots are kept in the directory MILLRACE_SHOTS, if set.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <thread>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tools.hpp"

namespace millrace::tests::test_console {
namespace {

using namespace std::chrono_literals;

const std::filesystem::path kSource = tests::source_dir();

class Console : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(installed({"node", "chromium"}));
    ASSERT_TRUE(node_package_installed("playwright-core"));
  }

  void start(const std::vector<std::string>& more = {}) {
    const auto deployment = directory_.path() / "lenet5";
    const std::string cluster = kSource / "configs/clusters/three-ku060.yaml";
    const Outcome compiled = run_program(
        {millrace_binary(), "compile", kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx",
         "--name", "lenet5", "--cluster", cluster, "--partitions", "3", "-o", deployment, "--quiet"});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    std::vector<std::string> arguments{"--deployment", deployment};
    arguments.insert(arguments.end(), more.begin(), more.end());
    serve(arguments);
  }

  void serve(const std::vector<std::string>& more) {
    std::vector<std::string> command{millrace_binary(), "serve",
                                     "--http",          "127.0.0.1:0",
                                     "--cluster",       kSource / "configs/clusters/three-ku060.yaml"};
    command.insert(command.end(), more.begin(), more.end());
    server_.emplace(command);
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    url_ = "http://" + *address;
    port_ = static_cast<std::uint16_t>(std::stoi(url_.substr(url_.rfind(':') + 1)));
  }

  /// Runs the browser test of the page, then stops the server.
  void browse(const std::vector<std::string>& more) {
    const char* shots = std::getenv("MILLRACE_SHOTS");
    std::vector<std::string> command{
        "node",      kSource / "tests/node/console.mjs",
        "--url",     url_,
        "--picture", kSource / "tests/vectors/lenet5_mnist/seven.png",
        "--shots",   shots != nullptr ? std::filesystem::path(shots) : directory_.path() / "shots"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run_program(command, {}, 500s);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
  }

  TemporaryDirectory directory_{"millrace-console"};
  std::optional<BackgroundProgram> server_;
  std::string url_;
  std::uint16_t port_ = 0;
};

TEST_F(Console, WorksOnDesktopAndPhoneWithMouseAndKeyboard) {
  start();
  BackgroundProgram load({millrace_binary(), "bench", "--url", url_, "--model", "lenet5", "--rate", "50",
                          "--duration", "600", "--warmup", "0"});
  HttpConnection connection(port_);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(connection.request("POST", "/v2/models/lenet5/infer", "{}")->status, 400);
  browse({"--refused", "3"});
}

TEST_F(Console, AsksForATokenWhenTheServerRequiresOne) {
  const std::string secret = "a-token-of-the-operator";
  const auto tokens = directory_.path() / "tokens";
  ASSERT_TRUE(write_file_atomically(tokens, "operator admin " + secret + "\n").ok());
  start({"--tokens", tokens});
  // This thread sends requests with a token.
  std::jthread load([&](const std::stop_token& stop) {
    HttpConnection connection(port_);
    const std::string frame(28 * 28 * 4, '\0');
    while (
        !stop.stop_requested() &&
        connection.request("POST", "/v2/models/lenet5/infer", frame,
                           "Inference-Header-Content-Length: 0\r\nAuthorization: Bearer " + secret + "\r\n"))
      std::this_thread::sleep_for(20ms);  // at most fifty requests a second
  });
  browse({"--token", secret});
}

TEST_F(Console, SwapsTheServingVersionOfAModel) {
  const auto repository = directory_.path() / "repository";
  for (const char* version : {"1", "2"}) {
    const auto place = repository / "lenet5" / version;
    std::filesystem::create_directories(place.parent_path());
    const Outcome compiled = run_program(
        {millrace_binary(), "compile", kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx",
         "--name", "lenet5", "--cluster", kSource / "configs/clusters/three-ku060.yaml", "--partitions", "3",
         "-o", place, "--quiet"});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  }
  serve({"--repository", repository, "--repository-mode", "explicit", "--load", "lenet5"});
  BackgroundProgram load({millrace_binary(), "bench", "--url", url_, "--model", "lenet5", "--rate", "50",
                          "--duration", "600", "--warmup", "0"});
  browse({"--swap", "1"});
}

TEST_F(Console, PageIsServedFromTheBinaryAndLoadsNothingFromElsewhere) {
  start();
  HttpConnection connection(port_);
  const auto page = connection.request("GET", "/");
  ASSERT_TRUE(page && page->status == 200);
  EXPECT_EQ(page->headers.at("content-type"), "text/html; charset=utf-8");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "server/console/page")) {
    const auto file = connection.request("GET", "/console/" + entry.path().filename().string());
    ASSERT_TRUE(file && file->status == 200) << entry.path();
    EXPECT_TRUE(file->body == *read_text_file(entry.path())) << entry.path();
    for (const char* elsewhere : {"http://", "https://", "//cdn"}) {
      const auto at = file->body.find(elsewhere);
      EXPECT_TRUE(at == std::string::npos || file->body.substr(at).starts_with("http://www.w3.org/2000/svg"))
          << entry.path() << " fetches from elsewhere";
    }
    ++files;
  }
  EXPECT_GE(files, 9);
  for (const char* none : {"/console/none.js", "/console/../console.cpp", "/console/", "/console"})
    EXPECT_EQ(connection.request("GET", none)->status, 404) << none;
}

}  // namespace
}  // namespace millrace::tests::test_console
