// Tests the whole product: compiles a model for three cards, serves it over HTTP and recognises digits. Every
// byte of an answer must equal the reference's.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "served_model.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_end_to_end {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = tests::source_dir();
const fs::path kVectors = kSource / "tests/vectors/lenet5_mnist";
const fs::path kModel = kVectors / "lenet5_qdq_s8_pow2.onnx";
constexpr std::size_t kPixels = 784;
constexpr std::size_t kOutputBytes = 40;

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
    const Outcome compiled =
        run_program({millrace_binary(), "compile", kModel.string(), "--name", "lenet5", "--cluster",
                     (kSource / "configs/clusters/three-ku060.yaml").string(), "--partitions", "3", "-o",
                     (dir_.path() / "d").string()});
    ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
    server_ = std::make_unique<BackgroundProgram>(std::vector<std::string>{
        millrace_binary(), "serve", "--deployment", (dir_.path() / "d").string(), "--http", "127.0.0.1:0"});
    const auto address = server_->wait_for_line("listening http ", std::chrono::seconds(60));
    ASSERT_TRUE(address) << server_->err();
    port_ = static_cast<std::uint16_t>(std::stoi(address->substr(address->rfind(':') + 1)));
  }

  /// Sends one tensor in raw mode: the request's body is the tensor itself, and the answer contains the
  /// outputs in binary form.
  static std::optional<HttpResponse> infer(HttpConnection& connection, const std::string& tensor) {
    return connection.request("POST", "/v2/models/lenet5/infer", tensor,
                              "Inference-Header-Content-Length: 0\r\n");
  }
  static std::string tensor_of(const HttpResponse& response) {
    return response.body.size() < kOutputBytes ? ""
                                               : response.body.substr(response.body.size() - kOutputBytes);
  }

  TemporaryDirectory dir_{"millrace-e2e"};
  std::unique_ptr<BackgroundProgram> server_;
  std::uint16_t port_ = 0;
};

TEST_F(EndToEnd, AnswersForAThousandDigitsOverHttpEqualTheReferenceAndTheGoldenFile) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  const auto labels = read_npy(kVectors / "labels_u8.npy");
  const auto golden = read_npy(kVectors / "golden_f32.npy");
  ASSERT_TRUE(images.ok() && labels.ok() && golden.ok());
  const kernels::Program program = program_of(kModel);

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
      ASSERT_EQ(std::memcmp(answer.data(), golden->data.data() + frame * kOutputBytes, kOutputBytes), 0)
          << "frame " << frame;
    }

    float scores[10];
    std::memcpy(scores, answer.data(), kOutputBytes);
    const auto best = std::max_element(scores, scores + 10) - scores;
    correct += best == std::to_integer<int>(labels->data[frame]) ? 1 : 0;
  }
  EXPECT_GE(correct, 980U);  // the float model's accuracy on these pictures is 0.99
  EXPECT_EQ(server_->stop(SIGTERM), 0) << server_->err();
}

/// Writes one test picture as a grey PGM file, enlarged by the factor `scale`.
void write_pgm(const fs::path& path, const NpyArray& images, std::size_t frame, std::size_t scale) {
  const std::size_t side = 28 * scale;
  std::ofstream file(path, std::ios::binary);
  file << "P5\n" << side << ' ' << side << "\n255\n";
  for (std::size_t y = 0; y < side; ++y)
    for (std::size_t x = 0; x < side; ++x)
      file.put(static_cast<char>(images.data[frame * kPixels + y / scale * 28 + x / scale]));
}

TEST_F(EndToEnd, InferRecognisesPicturesOfDigits) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  const auto labels = read_npy(kVectors / "labels_u8.npy");
  const auto golden = read_npy(kVectors / "golden_f32.npy");
  ASSERT_TRUE(images.ok() && labels.ok() && golden.ok());
  // Returns the classes in the order of their scores in the golden file, best first. The model labels class i
  // with the digit i.
  const auto order = [&](std::size_t frame) {
    float scores[10];
    std::memcpy(scores, golden->data.data() + frame * kOutputBytes, kOutputBytes);
    std::vector<std::size_t> classes(10);
    std::iota(classes.begin(), classes.end(), std::size_t{0});
    std::stable_sort(classes.begin(), classes.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    return classes;
  };
  std::vector<std::string> command = {
      millrace_binary(), "infer", "--url", "http://127.0.0.1:" + std::to_string(port_), "--top", "3"};
  constexpr std::size_t kPictures = 5;
  for (std::size_t frame = 0; frame < kPictures; ++frame) {
    const fs::path file = dir_.path() / ("digit" + std::to_string(frame) + ".pgm");
    write_pgm(file, *images, frame, 1);
    command.insert(command.end(), {"--input", file.string()});
  }
  const Outcome text = run_program(command);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  std::istringstream lines(text.out);
  for (std::size_t frame = 0; frame < kPictures; ++frame) {
    const std::string label(1, static_cast<char>('0' + std::to_integer<int>(labels->data[frame])));
    ASSERT_EQ(label, std::to_string(order(frame)[0])) << "the model is right about this one";
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_NE(line.find("digit" + std::to_string(frame) + ".pgm[0]: " + label + " ("), std::string::npos)
        << line;
    for (std::size_t rank = 1; rank < 3; ++rank)
      EXPECT_NE(line.find("), " + std::to_string(order(frame)[rank]) + " ("), std::string::npos) << line;
  }

  command.emplace_back("--json");
  const Outcome document = run_program(command);
  ASSERT_EQ(document.exit_code, 0) << document.err;
  const boost::json::value body = boost::json::parse(document.out);
  const auto& frames = body.at("frames").as_array();
  ASSERT_EQ(frames.size(), kPictures);
  for (std::size_t frame = 0; frame < kPictures; ++frame) {
    const auto& top = frames[frame].at("top").as_array();
    ASSERT_EQ(top.size(), 3U);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const std::size_t expected = order(frame)[rank];
      EXPECT_EQ(top[rank].at("index").to_number<std::size_t>(), expected);
      EXPECT_EQ(top[rank].at("label").as_string(), std::to_string(expected));
      float score = 0;
      std::memcpy(&score, golden->data.data() + frame * kOutputBytes + expected * 4, 4);
      EXPECT_EQ(top[rank].at("score").to_number<float>(), score) << "the golden score";
    }
  }
}

TEST_F(EndToEnd, InferStopsAtOnceWhenItsOutputPipeIsClosed) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  ASSERT_TRUE(images.ok());
  const fs::path picture = dir_.path() / "digit.pgm";
  write_pgm(picture, *images, 0, 1);
  // Descriptor 4 writes into a pipe whose only reader, descriptor 3, is closed.
  std::vector<std::string> command = {
      "sh",
      "-c",
      "mkfifo \"$0\"; exec 3<>\"$0\" 4>\"$0\" 3>&-; \"$@\" >&4; echo \"exit $?\"",
      (dir_.path() / "pipe").string(),
      millrace_binary(),
      "infer",
      "--url",
      "http://127.0.0.1:" + std::to_string(port_)};
  for (int i = 0; i < 8; ++i) command.insert(command.end(), {"--input", picture.string()});
  const Outcome outcome = run_program(command);
  EXPECT_EQ(outcome.out, "exit " + std::to_string(128 + SIGPIPE) + "\n");
  EXPECT_EQ(outcome.err, "");
  HttpConnection connection(port_);
  const auto metrics = connection.request("GET", "/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("millrace_http_responses_total{code=\"200\"} 4\n"), std::string::npos)
      << "the index, two descriptions of the model and one inference are asked for: " << metrics->body;
}

TEST_F(EndToEnd, InferResizesAPictureOfAnotherSizeAndReportsTheResizing) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  const auto labels = read_npy(kVectors / "labels_u8.npy");
  ASSERT_TRUE(images.ok() && labels.ok());
  const fs::path file = dir_.path() / "large.pgm";
  write_pgm(file, *images, 0, 4);
  const Outcome outcome =
      run_program({millrace_binary(), "infer", "--url", "http://127.0.0.1:" + std::to_string(port_), "--top",
                   "1", "--input", file.string()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("resized from 112x112 to 28x28"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("[0]: " + std::to_string(std::to_integer<int>(labels->data[0])) + " ("),
            std::string::npos)
      << outcome.out;
}

TEST_F(EndToEnd, ConcurrentClientsEachReceiveTheirOwnAnswers) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  ASSERT_TRUE(images.ok());
  std::vector<std::string> expected(64);
  {
    HttpConnection connection(port_);
    for (std::size_t i = 0; i < expected.size(); ++i)
      expected[i] = tensor_of(*infer(connection, float_image(*images, i)));
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

TEST_F(EndToEnd, AKilledCardRecoversAndAKilledServerLeavesNoCardProcess) {
  const auto images = read_npy(kVectors / "images_u8.npy");
  ASSERT_TRUE(images.ok());
  HttpConnection connection(port_);
  const std::string image = float_image(*images, 0);
  const auto before = infer(connection, image);
  ASSERT_TRUE(before && before->status == 200);

  const auto cards = children_named(server_->pid(), "millrace-card");
  ASSERT_EQ(cards.size(), 3U);
  for (const pid_t card : cards)
    EXPECT_NE(::getpgid(card), ::getpgid(server_->pid())) << "Ctrl-C would end the cards before the drain";
  ::kill(cards[1], SIGKILL);
  bool refused = false, back = false;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!back && std::chrono::steady_clock::now() < until) {
    const auto response = infer(connection, image);
    ASSERT_TRUE(response) << server_->err();
    if (response->status == 503)
      refused = true;
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
  EXPECT_TRUE(wait_until([&] { return std::none_of(alive.begin(), alive.end(), process_exists); }))
      << "a card process outlived its server";
}

TEST_F(EndToEnd, ABadRequestIsRefusedWithTheNameOfTheWrongField) {
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
  const std::string name =
      metadata->body.substr(at + key.size(), metadata->body.find('"', at + key.size()) - at - key.size());
  const auto body = [&](const std::string& input, const std::string& shape, const std::string& type,
                        const std::string& values) {
    return "{\"inputs\":[{\"name\":\"" + input + "\",\"shape\":" + shape + ",\"datatype\":\"" + type +
           "\",\"data\":" + values + "}]}";
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
      {body(name, "[1,1,28,28]", "INT16", data), 400, "INT16"},
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
}  // namespace millrace::tests::test_end_to_end
