// The console in a real browser: tests/node/console.mjs drives Chromium over a server that runs LeNet-5 on
// three cards under load. MILLRACE_SHOTS names a directory for its screenshots.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

#include "runtime/base/file.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {
namespace {

using namespace std::chrono_literals;

const std::filesystem::path kSource = MILLRACE_SOURCE_DIR;

class Console : public testing::Test {
 protected:
  void SetUp() override {
    const auto deployment = directory_.path() / "lenet5";
    const std::string cluster = kSource / "configs/clusters/three-ku060.yaml";
    const Outcome compiled = run_program(
        {millrace_binary(), "compile", kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx",
         "--name", "lenet5", "--cluster", cluster, "-o", deployment, "--quiet"});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    server_.emplace(std::vector<std::string>{millrace_binary(), "serve", "--deployment", deployment,
                                             "--cluster", cluster, "--http", "127.0.0.1:0"});
    const auto address = server_->wait_for_line("listening http ", 60s);
    ASSERT_TRUE(address.has_value()) << server_->err();
    url_ = "http://" + *address;
  }

  TemporaryDirectory directory_{"millrace-console"};
  std::optional<BackgroundProgram> server_;
  std::string url_;
};

bool works(const std::string& command) {
  return run_program({"sh", "-c", command}).exit_code == 0;
}

TEST_F(Console, WorksInABrowserOnDesktopAndPhoneByMouseAndByKeys) {
  if (!works("command -v node")) GTEST_SKIP() << "Debian package nodejs is not installed";
  if (!works("command -v chromium")) GTEST_SKIP() << "Debian package chromium is not installed";
  if (!std::filesystem::exists(kSource / "tests/node/node_modules/playwright-core"))
    GTEST_SKIP() << "playwright-core is not installed: tools/setup test";
  BackgroundProgram load({millrace_binary(), "bench", "--url", url_, "--model", "lenet5", "--rate", "50",
                          "--duration", "600", "--warmup", "0"});
  const char* shots = std::getenv("MILLRACE_SHOTS");
  const Outcome outcome =
      run_program({"node", kSource / "tests/node/console.mjs", "--url", url_, "--picture",
                   kSource / "tests/vectors/lenet5_mnist/seven.png", "--shots",
                   shots != nullptr ? std::filesystem::path(shots) : directory_.path() / "shots"},
                  {}, 200s);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  load.stop(SIGKILL);
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
}

TEST_F(Console, IsInTheBinaryAndNamesNothingThatIsNot) {
  HttpConnection connection(static_cast<std::uint16_t>(std::stoi(url_.substr(url_.rfind(':') + 1))));
  const auto page = connection.request("GET", "/");
  ASSERT_TRUE(page && page->status == 200);
  EXPECT_EQ(page->headers.at("content-type"), "text/html; charset=utf-8");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "server/console/page")) {
    const auto file = connection.request("GET", "/console/" + entry.path().filename().string());
    ASSERT_TRUE(file && file->status == 200) << entry.path();
    EXPECT_EQ(file->body, *read_text_file(entry.path())) << entry.path();
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
}  // namespace millrace::tests
