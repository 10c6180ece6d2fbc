// The whole product: a model compiled for three cards, served over HTTP, a digit recognised, every byte the reference's.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "compiler/emit/program.hpp"
#include "compiler/import/import.hpp"
#include "compiler/passes/passes.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = MILLRACE_SOURCE_DIR;
const fs::path kVectors = kSource / "tests/vectors/lenet5_mnist";
const fs::path kModel = kVectors / "lenet5_qdq_s8_pow2.onnx";
constexpr std::size_t kPixels = 784;
constexpr std::size_t kOutputBytes = 40;

kernels::Program reference_program() {
  auto graph = compiler::import::import_onnx(kModel);
  if (!graph.ok()) throw std::runtime_error(graph.error().message());
  auto lowered = compiler::passes::run_standard_passes(std::move(*graph));
  if (!lowered.ok()) throw std::runtime_error(lowered.error().message());
  auto program = compiler::emit::build_program(*lowered);
  if (!program.ok()) throw std::runtime_error(program.error().message());
  return std::move(*program);
}

std::string float_image(const NpyArray& images, std::size_t frame) {
  std::string bytes(kPixels * 4, '\0');
  for (std::size_t i = 0; i < kPixels; ++i) {
    const float x = static_cast<float>(std::to_integer<unsigned>(images.data[frame * kPixels + i])) / 255.0F;
    std::memcpy(bytes.data() + i * 4, &x, 4);
  }
  return bytes;
}

class EndToEnd : public ::testing::Test {
 protected:
  void SetUp() override {
    const Outcome compiled = run_program({millrace_binary(), "compile", kModel.string(), "--name", "lenet5", "--cluster",
                                          (kSource / "configs/clusters/three-ku060.yaml").string(), "-o", (dir_.path() / "d").string()});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    server_ = std::make_unique<BackgroundProgram>(std::vector<std::string>{
        millrace_binary(), "serve", "--deployment", (dir_.path() / "d").string(), "--http", "127.0.0.1:0"});
    const auto address = server_->wait_for_line("listening http ", std::chrono::seconds(60));
    ASSERT_TRUE(address) << server_->err();
    port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
  }

  /// Raw mode: the body is the one tensor, the answer's outputs are binary.
  static std::optional<HttpResponse> infer(HttpConnection& connection, const std::string& tensor) {
    return connection.request("POST", "/v2/models/lenet5/infer", tensor, "Inference-Header-Content-Length: 0\r\n");
  }
  static std::string tensor_of(const HttpResponse& response) {
    return response.body.size() < kOutputBytes ? "" : response.body.substr(response.body.size() - kOutputBytes);
  }

  TemporaryDirectory dir_{"millrace-e2e"};
  std::unique_ptr<BackgroundProgram> server_;
  std::uint16_t port_ = 0;
};

TEST_F(EndToEnd, A_thousand_digits_over_http_equal_the_reference_and_the_golden_file) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  const auto labels = read_npy(kVectors / "labels_u8.npy");
  const auto golden = read_npy(kVectors / "golden_f32.npy");
  ASSERT_TRUE(images.ok() && labels.ok() && golden.ok());
  const kernels::Program program = reference_program();

  HttpConnection connection(port_);
  std::size_t correct = 0;
  for (std::size_t frame = 0; frame < 1000; ++frame) {
    const std::string image = float_image(*images, frame);
    const auto response = infer(connection, image);
    ASSERT_TRUE(response) << "frame " << frame << ": no answer; " << server_->err();
    ASSERT_EQ(response->status, 200) << response->body;
    const std::string answer = tensor_of(*response);

    const kernels::reference::Buffer input(reinterpret_cast<const std::byte*>(image.data()),
                                           reinterpret_cast<const std::byte*>(image.data()) + image.size());
    const auto expected = kernels::reference::run(program, {input});
    ASSERT_EQ(answer.size(), expected[0].size());
    ASSERT_EQ(std::memcmp(answer.data(), expected[0].data(), answer.size()), 0) << "frame " << frame;
    if (frame < 100) {
      ASSERT_EQ(std::memcmp(answer.data(), golden->data.data() + frame * kOutputBytes, kOutputBytes), 0) << "frame " << frame;
    }

    float scores[10];
    std::memcpy(scores, answer.data(), kOutputBytes);
    const auto best = std::max_element(scores, scores + 10) - scores;
    correct += best == std::to_integer<int>(labels->data[frame]) ? 1 : 0;
  }
  EXPECT_GE(correct, 980U);  // the float model's own accuracy on these is 0.99
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
}

TEST_F(EndToEnd, Concurrent_clients_each_get_their_own_answer) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  ASSERT_TRUE(images.ok());
  std::vector<std::string> expected(64);
  {
    HttpConnection connection(port_);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = tensor_of(*infer(connection, float_image(*images, i)));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (std::size_t c = 0; c < 8; ++c)
    clients.emplace_back([&, c] {
      HttpConnection connection(port_);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t frame = (i * 7 + c * 13) % expected.size();
        const auto response = infer(connection, float_image(*images, frame));
        if (!response || response->status != 200 || tensor_of(*response) != expected[frame]) ++wrong;
      }
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EndToEnd, A_killed_card_gives_errors_then_answers_again_and_stopping_leaves_no_process) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  ASSERT_TRUE(images.ok());
  HttpConnection connection(port_);
  const std::string image = float_image(*images, 0);
  const auto before = infer(connection, image);
  ASSERT_TRUE(before && before->status == 200);

  const auto cards = children_named(server_->pid(), "millrace-card");
  ASSERT_EQ(cards.size(), 3U);
  for (const pid_t card : cards) EXPECT_NE(::getpgid(card), ::getpgid(server_->pid())) << "Ctrl-C would end the cards before the drain";
  ::kill(cards[1], SIGKILL);
  bool refused = false, back = false;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!back && std::chrono::steady_clock::now() < until) {
    const auto response = infer(connection, image);
    ASSERT_TRUE(response) << server_->err();
    if (response->status == 503) refused = true;
    else if (response->status == 200) {
      EXPECT_EQ(tensor_of(*response), tensor_of(*before));
      back = children_named(server_->pid(), "millrace-card").size() == 3 && !process_exists(cards[1]);
    } else {
      FAIL() << response->status << response->body;
    }
  }
  EXPECT_TRUE(back);
  RecordProperty("refused_while_lost", refused ? 1 : 0);

  const auto alive = children_named(server_->pid(), "millrace-card");
  EXPECT_EQ(server_->stop(SIGKILL), 128 + SIGKILL);
  for (int i = 0; i < 500; ++i) {
    bool any = false;
    for (const pid_t card : alive) any = any || process_exists(card);
    if (!any) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "a card process outlived its server";
}

TEST_F(EndToEnd, What_is_wrong_with_a_request_is_said_with_the_field) {
  HttpConnection connection(port_);
  const std::string data = "[" + [] {
    std::string zeros = "0";
    for (std::size_t i = 1; i < kPixels; ++i) zeros += ",0";
    return zeros;
  }() + "]";
  const auto metadata = connection.request("GET", "/v2/models/lenet5");
  ASSERT_TRUE(metadata && metadata->status == 200);
  const std::string key = "\"inputs\":[{\"name\":\"";
  const auto at = metadata->body.find(key);
  ASSERT_NE(at, std::string::npos) << metadata->body;
  const std::string name = metadata->body.substr(at + key.size(), metadata->body.find('"', at + key.size()) - at - key.size());
  const auto body = [&](const std::string& input, const std::string& shape, const std::string& type, const std::string& values) {
    return "{\"inputs\":[{\"name\":\"" + input + "\",\"shape\":" + shape + ",\"datatype\":\"" + type + "\",\"data\":" + values + "}]}";
  };
  const struct {
    std::string body;
    int status;
    std::string word;
  } cases[] = {
      {body(name, "[1,1,28,28]", "FP32", data), 200, "outputs"},
      {body("nonsense", "[1,1,28,28]", "FP32", data), 400, "nonsense"},
      {body(name, "[1,1,28,27]", "FP32", data), 400, "shape"},
      {body(name, "[2,1,28,28]", "FP32", data), 400, "shape"},
      {body(name, "[1,1,28,28]", "INT8", data), 400, "INT8"},
      {body(name, "[1,1,28,28]", "FP32", "[1,2,3]"), 400, name},
      {"{\"inputs\":[]}", 400, "inputs"},
      {"{", 400, "JSON"},
      {"", 400, ""},
  };
  for (const auto& c : cases) {
    const auto response = connection.request("POST", "/v2/models/lenet5/infer", c.body);
    ASSERT_TRUE(response) << c.body.substr(0, 80);
    EXPECT_EQ(response->status, c.status) << response->body;
    EXPECT_NE(response->body.find(c.word), std::string::npos) << c.word << " not in " << response->body;
  }
  const auto unknown = connection.request("POST", "/v2/models/nobody/infer", cases[0].body);
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, 404);
  const auto short_tensor = infer(connection, std::string(100, '\0'));
  ASSERT_TRUE(short_tensor);
  EXPECT_EQ(short_tensor->status, 400) << short_tensor->body;
}

}  // namespace
}  // namespace millrace::tests
