// millrace-demo, the client of tools/demo. Sends MNIST images one at a time, draws a few with their answers,
// and reports accuracy, latency and whether the answers equal those of the golden file.
//
//   millrace-demo --url http://HOST:PORT --model NAME --vectors DIR --frames N

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/npy.hpp"
#include "tools/clients/http_client.hpp"

namespace millrace::clients {
namespace {

constexpr std::size_t kSide = 28;
constexpr std::size_t kPixels = kSide * kSide;
constexpr std::size_t kClasses = 10;
constexpr std::size_t kDrawn = 5;

using Scores = std::array<float, kClasses>;
using Picture = std::vector<std::string>;

struct Vectors {
  NpyArray images, labels, golden;
  std::size_t frames() const { return images.shape[0]; }
  std::size_t golden_frames() const { return golden.shape[0]; }
  const std::byte* image(std::size_t frame) const { return images.data.data() + frame * kPixels; }
  std::size_t label(std::size_t frame) const { return std::to_integer<std::size_t>(labels.data[frame]); }
};

Result<Vectors> read_vectors(const std::filesystem::path& directory) {
  Vectors v;
  MILLRACE_ASSIGN(v.images, read_npy(directory / "images_u8.npy"));
  MILLRACE_ASSIGN(v.labels, read_npy(directory / "labels_u8.npy"));
  MILLRACE_ASSIGN(v.golden, read_npy(directory / "golden_f32.npy"));
  const bool usable = v.images.descr == "|u1" && v.images.shape.size() == 3 &&
                      v.images.elements() == v.frames() * kPixels && v.labels.descr == "|u1" &&
                      v.labels.elements() == v.frames() && v.golden.descr == "<f4" &&
                      v.golden.shape.size() == 2 && v.golden.elements() == v.golden_frames() * kClasses;
  if (!usable)
    return Error(
        ErrorCode::kInvalidInput,
        directory.string() + ": the numbers or shapes of images, labels and golden values do not match");
  return v;
}

/// Computes the model's input x = sample / 255, as the model's millrace.yaml specifies.
std::vector<std::byte> tensor_of(const std::byte* image) {
  std::vector<std::byte> tensor(kPixels * sizeof(float));
  for (std::size_t i = 0; i < kPixels; ++i) {
    const float x = static_cast<float>(std::to_integer<unsigned>(image[i])) / 255.0F;
    std::memcpy(tensor.data() + i * sizeof x, &x, sizeof x);
  }
  return tensor;
}

/// Draws an image with 14 columns and 7 rows of Braille characters. Each character shows 2 by 4 pixels.
Picture draw(const std::byte* image) {
  static constexpr unsigned kDot[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  Picture rows;
  for (std::size_t y = 0; y < kSide; y += 4) {
    std::string row;
    for (std::size_t x = 0; x < kSide; x += 2) {
      unsigned dots = 0;
      for (std::size_t dy = 0; dy < 4; ++dy)
        for (std::size_t dx = 0; dx < 2; ++dx)
          if (std::to_integer<unsigned>(image[(y + dy) * kSide + x + dx]) > 96) dots |= kDot[dy][dx];
      const unsigned code = 0x2800 + dots;
      row += static_cast<char>(0xE0 | (code >> 12));
      row += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      row += static_cast<char>(0x80 | (code & 0x3F));
    }
    rows.push_back(row);
  }
  return rows;
}

/// Sends a request in the protocol's raw mode: the body is the tensor, and the answer is a short JSON header,
/// followed by the outputs' bytes.
Result<Scores> ask(HttpClient& client, const std::string& target, const std::vector<std::byte>& tensor) {
  MILLRACE_ASSIGN(const auto answer, client.post(target, tensor, {{"Inference-Header-Content-Length", "0"}}));
  if (answer.status != 200)
    return Error(ErrorCode::kUnavailable, "HTTP " + std::to_string(answer.status) + ": " + answer.body);
  Scores scores{};
  if (answer.inference_header_length.value_or(answer.body.size()) + sizeof scores != answer.body.size())
    return Error(ErrorCode::kInvalidInput, "the answer does not hold ten scores");
  std::memcpy(scores.data(), answer.body.data() + *answer.inference_header_length, sizeof scores);
  return scores;
}

std::size_t best_of(const Scores& scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

struct Tally {
  std::size_t right = 0, golden_equal = 0, golden_compared = 0;
  std::vector<double> microseconds;
  std::vector<std::pair<std::size_t, std::size_t>>
      shown;  // (frame, answer) of the first frames and of the mistakes

  double percentile(double p) {
    std::sort(microseconds.begin(), microseconds.end());
    return microseconds[std::min(microseconds.size() - 1,
                                 static_cast<std::size_t>(p * static_cast<double>(microseconds.size())))];
  }
};

Result<Tally> ask_all(HttpClient& client, const std::string& target, const Vectors& vectors,
                      std::size_t frames) {
  Tally tally;
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const auto tensor = tensor_of(vectors.image(frame));
    const auto start = std::chrono::steady_clock::now();
    auto scores = ask(client, target, tensor);
    if (!scores.ok()) return scores.error().within("image " + std::to_string(frame));
    tally.microseconds.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());

    const std::size_t answer = best_of(*scores);
    const bool right = answer == vectors.label(frame);
    tally.right += right ? 1 : 0;
    if (frame < vectors.golden_frames()) {
      ++tally.golden_compared;
      tally.golden_equal += std::memcmp(scores->data(), vectors.golden.data.data() + frame * sizeof(Scores),
                                        sizeof(Scores)) == 0
                                ? 1
                                : 0;
    }
    if (frame < kDrawn || (!right && tally.shown.size() < 2 * kDrawn))
      tally.shown.emplace_back(frame, answer);
  }
  return tally;
}

void print_row(const Vectors& vectors, const std::vector<std::pair<std::size_t, std::size_t>>& row) {
  std::vector<Picture> pictures;
  for (const auto& [frame, answer] : row) pictures.push_back(draw(vectors.image(frame)));
  for (std::size_t y = 0; y < pictures.front().size(); ++y) {
    for (const auto& picture : pictures) std::cout << ' ' << picture[y] << ' ';
    std::cout << '\n';
  }
  for (const auto& [frame, answer] : row) {
    const std::size_t label = vectors.label(frame);
    std::string caption = answer == label ? "it is a " + std::to_string(answer)
                                          : std::to_string(answer) + ", truly " + std::to_string(label);
    caption.resize(16, ' ');
    std::cout << caption;
  }
  std::cout << "\n\n";
}

void print(const Vectors& vectors, Tally& tally) {
  for (std::size_t at = 0; at < tally.shown.size(); at += kDrawn) {
    const auto end = std::min(tally.shown.size(), at + kDrawn);
    print_row(vectors, {tally.shown.begin() + static_cast<std::ptrdiff_t>(at),
                        tally.shown.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  const std::size_t n = tally.microseconds.size();
  std::cout.setf(std::ios::fixed);
  std::cout.precision(1);
  std::cout << "accuracy   " << tally.right << " of " << n << " ("
            << 100.0 * static_cast<double>(tally.right) / static_cast<double>(n) << " %)\n";
  if (tally.golden_compared > 0)
    std::cout << "golden     " << tally.golden_equal << " of " << tally.golden_compared
              << " answers equal ONNX Runtime's in every byte\n";
  double total = 0;
  for (const double t : tally.microseconds) total += t;
  std::cout.precision(0);
  const double p50 = tally.percentile(0.5), p99 = tally.percentile(0.99);
  std::cout << "latency    p50 " << p50 << " us, p99 " << p99 << " us, one request at a time over HTTP ("
            << 1e6 * static_cast<double>(n) / total << " requests/s)\n";
}

Status run(const std::map<std::string, std::string>& options) {
  const auto option = [&](const char* name) -> Result<std::string> {
    const auto found = options.find(name);
    if (found == options.end()) return Error(ErrorCode::kInvalidInput, std::string(name) + " is missing");
    return found->second;
  };
  MILLRACE_ASSIGN(const auto url_text, option("--url"));
  MILLRACE_ASSIGN(const auto model, option("--model"));
  MILLRACE_ASSIGN(const auto directory, option("--vectors"));
  MILLRACE_ASSIGN(const auto frames_text, option("--frames"));
  MILLRACE_ASSIGN(const auto url, parse_url(url_text));
  MILLRACE_ASSIGN(const auto vectors, read_vectors(directory));

  std::size_t frames = 0;
  const auto [end, code] =
      std::from_chars(frames_text.data(), frames_text.data() + frames_text.size(), frames);
  if (code != std::errc() || end != frames_text.data() + frames_text.size() || frames == 0 ||
      frames > vectors.frames())
    return Error(ErrorCode::kInvalidInput, "--frames: '" + frames_text + "' is not a number from 1 to " +
                                               std::to_string(vectors.frames()));

  MILLRACE_ASSIGN(const auto client, HttpClient::connect(url, std::chrono::seconds(10)));
  MILLRACE_ASSIGN(auto tally,
                  ask_all(*client, "/v2/models/" + percent_encoded(model) + "/infer", vectors, frames));
  print(vectors, tally);
  if (tally.golden_equal != tally.golden_compared)
    return Error(ErrorCode::kDoesNotFit, std::to_string(tally.golden_compared - tally.golden_equal) +
                                             " answers differ from the golden file");
  return {};
}

}  // namespace
}  // namespace millrace::clients

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const millrace::Status status = millrace::clients::run(options);
  if (status.ok()) return 0;
  std::cerr << "millrace-demo: error: " << status.error().message() << '\n';
  return millrace::exit_code(status.error().code());
}
