// Tests how `millrace infer` reads input files and how it talks to a server.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "fake_pipeline.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "server/http/server.hpp"
#include "tests/support/wait.hpp"
#include "tools/clients/http_client.hpp"
#include "tools/clients/samples.hpp"

namespace millrace::clients::test_clients {
namespace {

using namespace std::chrono_literals;

template <class T>
std::vector<T> values(const std::vector<std::byte>& data) {
  std::vector<T> out(data.size() / sizeof(T));
  std::memcpy(out.data(), data.data(), out.size() * sizeof(T));
  return out;
}

class SampleFiles : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, std::string_view bytes) {
    EXPECT_TRUE(write_file_atomically(directory.path() / name, bytes).ok());
    return directory.path() / name;
  }
  std::filesystem::path write(const std::string& name, const std::string& descr,
                              std::vector<std::uint64_t> shape, std::string_view data) {
    NpyArray array{descr, std::move(shape), {}};
    const auto* begin = reinterpret_cast<const std::byte*>(data.data());
    array.data.assign(begin, begin + data.size());
    EXPECT_TRUE(write_npy(directory.path() / name, array).ok());
    return directory.path() / name;
  }

  TemporaryDirectory directory{"millrace_samples"};
  InputDescription picture{"x", "FP32", {1, 3, 1, 2}, "NCHW", {0.5F, 1, 2}, {1, 0, 0}};
  InputDescription vector{"v", "FP32", {1, 2}, "", {0.5F}, {}};
};

/// A picture of 2x1 pixels with the hexadecimal colours (11, 16, 21) and (2c, 37, 42).
constexpr std::string_view kPpm = "P6 2 1 255\n\x0b\x16\x21\x2c\x37\x42";

TEST_F(SampleFiles, PictureBecomesChannelPlanesWithMeanAndScaleApplied) {
  const auto samples = read_samples(write("a.PPM", kPpm), picture);
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  EXPECT_EQ(samples->note, "");
  ASSERT_EQ(samples->frames.size(), 1U);
  EXPECT_EQ(values<float>(samples->frames[0]), (std::vector<float>{5, 21.5, 22, 55, 66, 132}));
}

TEST_F(SampleFiles, APictureStaysInterleavedForNhwcAndIsRoundedForIntegerInputs) {
  const InputDescription input{"x", "UINT8", {1, 1, 2, 3}, "NHWC", {0.5F}, {}};
  const auto samples = read_samples(write("a.ppm", kPpm), input);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(values<std::uint8_t>(samples->frames[0]), (std::vector<std::uint8_t>{6, 11, 16, 22, 28, 33}))
      << "half to even";
}

TEST_F(SampleFiles, PictureOfAnotherSizeIsResizedAndTheResizingIsReported) {
  const InputDescription grey{"x", "FP32", {1, 1, 2, 2}, "NCHW", {}, {}};
  const auto samples =
      read_samples(write("b.pgm", std::string("P5 4 4 255\n") + std::string(16, '\x64')), grey);
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  EXPECT_EQ(samples->note, "resized from 4x4 to 2x2");
  EXPECT_EQ(values<float>(samples->frames[0]), (std::vector<float>{100, 100, 100, 100}));
}

TEST_F(SampleFiles, ArrayIsOneFrameOrSeveralFramesAlongTheFirstAxis) {
  const std::string two_frames(2 * 6 * 4, '\0');
  for (const auto& shape :
       {std::vector<std::uint64_t>{2, 3, 1, 2}, std::vector<std::uint64_t>{2, 1, 3, 1, 2}}) {
    const auto samples = read_samples(write("a.npy", "<f4", shape, two_frames), picture);
    ASSERT_TRUE(samples.ok()) << samples.error().message();
    EXPECT_EQ(samples->frames.size(), 2U);
  }
  const auto one = read_samples(write("a.npy", "<f4", {3, 1, 2}, two_frames.substr(24)), picture);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->frames.size(), 1U);
}

TEST_F(SampleFiles, AnArrayOfRawSamplesIsPreprocessed) {
  const auto samples = read_samples(write("a.npy", "|u1", {1, 1, 2, 3}, "\x0b\x16\x21\x2c\x37\x42"), picture);
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  EXPECT_EQ(values<float>(samples->frames[0]), (std::vector<float>{5, 21.5, 22, 55, 66, 132}));
  const auto flat = read_samples(write("v.npy", "|u1", {2, 1, 2}, "\x02\x04\x06\x08"), vector);
  ASSERT_TRUE(flat.ok()) << flat.error().message();
  ASSERT_EQ(flat->frames.size(), 2U);
  EXPECT_EQ(values<float>(flat->frames[1]), (std::vector<float>{3, 4}));
}

TEST_F(SampleFiles, BytesWithoutAScaleBecomeTheNumbers0To255AndANoteSaysSo) {
  const InputDescription plain{"v", "FP32", {1, 2}, "", {}, {}};
  const auto samples = read_samples(write("v.npy", "|u1", {1, 2}, "\x02\xff"), plain);
  ASSERT_TRUE(samples.ok()) << samples.error().message();
  EXPECT_EQ(values<float>(samples->frames[0]), (std::vector<float>{2, 255}));
  EXPECT_NE(samples->note.find("the numbers 0 to 255"), std::string::npos) << samples->note;
}

TEST_F(SampleFiles, RawBytesMustBeAWholeNumberOfFrames) {
  const auto samples = read_samples(write("a.bin", std::string(16, 'x')), vector);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(samples->frames.size(), 2U);
}

TEST_F(SampleFiles, ErrorNamesAFileThatDoesNotFitTheInput) {
  InputDescription mean = picture;
  mean.mean = {1, 2};
  InputDescription huge = vector;
  huge.shape = {1, 1LL << 62, 1LL << 62};
  InputDescription strings = vector;
  strings.datatype = "BYTES";
  const std::string bomb = "P6 60000 60000 255\n";
  struct Case {
    std::filesystem::path file;
    InputDescription input;
    std::string_view says;
  };
  const Case cases[] = {
      {directory.path() / "none.png", picture, "none.png"},
      {write("a.png", "not a picture"), picture, "not a picture"},
      {write("b.ppm", bomb), picture, "over 100 megapixels"},
      {write("c.ppm", kPpm), vector, "not described as a picture"},
      {write("d.ppm", kPpm), mean, "gives 2 values"},
      {write("e.bin", "123"), vector, "not a whole number of frames"},
      {write("f.bin", ""), vector, "not a whole number of frames"},
      {write("g.npy", "<f4", {2, 3}, std::string(24, 'x')), vector, "does not fit input 'v'"},
      {write("h.npy", "<f8", {1, 2}, std::string(16, 'x')), vector, "astype('<f4')"},
      {write("i.npy", "<f4", {0, 2}, ""), vector, "does not fit"},
      {write("j.npy", "nonsense"), vector, "j.npy"},
      {write("k.bin", "1234"), huge, "whose size is not fixed or is too large"},
      {write("l.bin", "1234"), strings, "of type BYTES"},
  };
  for (const Case& one : cases) {
    const auto samples = read_samples(one.file, one.input);
    ASSERT_FALSE(samples.ok()) << one.file;
    EXPECT_NE(samples.error().message().find(one.says), std::string::npos) << samples.error().message();
  }
}

TEST(LargestValues, PrefersTheFirstOfEqualValuesAndPutsNanLast) {
  EXPECT_EQ(largest({1, 3, 3, NAN, -1}, 4), (std::vector<std::size_t>{1, 2, 0, 4}));
  EXPECT_EQ(largest({NAN, -HUGE_VAL}, 9).size(), 2U);
  EXPECT_TRUE(largest({}, 3).empty());
}

TEST(Url, ConsistsOfAHostAndAPort) {
  EXPECT_EQ(parse_url("http://h").value().port, "8000");
  EXPECT_EQ(parse_url("http://[::1]:80/").value().host, "::1");
  EXPECT_EQ(parse_url("http://127.0.0.1:1").value().port, "1");
  for (const char* bad : {"", "h:80", "http://", "http://:80", "http://h:", "http://h:0", "http://h:65536",
                          "http://h:8x", "http://h/p", "http://u@h", "http://[::1", "http://[::1]x"})
    EXPECT_EQ(parse_url(bad).error().code(), ErrorCode::kInvalidInput) << bad;
  EXPECT_EQ(parse_url("udp://h:1").error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(parse_url("https://[::1]").value().scheme, Url::Scheme::kHttps);
  EXPECT_EQ(parse_url("unix:/run/m.sock").value().path, "/run/m.sock");
  for (const char* same : {"http://h:1", "https://[::1]:80", "unix:/a b"})
    EXPECT_EQ(to_string(parse_url(same).value()), same);
  EXPECT_EQ(parse_url("unix:").error().code(), ErrorCode::kInvalidInput);
}

TEST(HttpClient, ReusesItsConnectionAndReconnectsWhenTheServerClosesIt) {
  auto metrics = server::metrics::Metrics::create("0");
  server::models::Registry registry;
  server::http::Api api(registry, *metrics, {"0", 1000ms});
  server::http::ServerOptions options;
  options.idle_timeout = options.linger = 300ms;
  auto server = server::http::Server::open(options, api, registry, *metrics);
  ASSERT_TRUE(server.ok());
  const auto closed_by_the_server = [&] {
    return tests::wait_until(
        [&] { return metrics->serialise().find("\nmillrace_http_connections 0\n") != std::string::npos; });
  };
  auto client = HttpClient::connect(parse_url("http://" + server.value()->address()).value(), 60s);
  ASSERT_TRUE(client.ok()) << client.error().message();
  for (int i = 0; i < 2; ++i) {
    const auto answer = client.value()->get("/v2/health/live");
    ASSERT_TRUE(answer.ok()) << answer.error().message();
    EXPECT_EQ(answer->body, R"({"live":true})");
    ASSERT_TRUE(closed_by_the_server());
  }
  EXPECT_EQ(client.value()->get("/v2/models/none")->status, 404U);
  server.value()->stop(0ms);
  EXPECT_EQ(client.value()->get("/v2").error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace millrace::clients::test_clients
