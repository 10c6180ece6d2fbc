// Tests `millrace quantize`, `compile --data`, and commands with several inputs in the way that a user runs them.
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <random>

#include "onnx_model.hpp"
#include "plan_command.hpp"
#include "runtime/base/npy.hpp"
#include "tests/support/python_client.hpp"

namespace millrace::tests::test_quantize_command {
namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> floats(count);
  for (float& f : floats) f = values(random);
  return floats;
}

NpyArray array_of(const std::vector<float>& floats, std::vector<std::uint64_t> shape) {
  NpyArray array{"<f4", std::move(shape), std::vector<std::byte>(floats.size() * sizeof(float))};
  std::memcpy(array.data.data(), floats.data(), array.data.size());
  return array;
}

class QuantizeCommandTest : public PlanCommand {
 protected:
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  /// Makes the model y = W2 Relu(W1 x), with eight inputs and three outputs.
  std::string float_model() const {
    OnnxModel m;
    m.input("x", {1, 8});
    m.floats("w1", {8, 6}, random_floats(48, 1));
    m.node("Gemm", {"x", "w1"}, "first");
    m.node("Relu", {"first"}, "relu");
    m.floats("w2", {6, 3}, random_floats(18, 2));
    m.node("Gemm", {"relu", "w2"}, "y");
    m.output("y");
    EXPECT_TRUE(write_file_atomically(path("net.onnx"), m.bytes()).ok());
    return path("net.onnx");
  }

  std::string samples(const std::string& name, std::size_t count, std::uint64_t each = 8) const {
    EXPECT_TRUE(write_npy(path(name), array_of(random_floats(count * each, 3), {count, each})).ok());
    return path(name);
  }

  std::string labels(const std::string& name, const std::vector<std::uint8_t>& classes) const {
    NpyArray array{"|u1", {classes.size()}, {}};
    for (const std::uint8_t c : classes) array.data.push_back(static_cast<std::byte>(c));
    EXPECT_TRUE(write_npy(path(name), array).ok());
    return path(name);
  }

  std::string cluster() const { return (kSource / "configs/clusters/three-ku060.yaml").string(); }
};

/// A zip archive of files, each stored or deflated, as numpy.savez and numpy.savez_compressed write it.
std::string zip(const std::vector<std::pair<std::string, std::string>>& files, bool deflated) {
  std::string out, directory;
  const auto put = [](std::string& to, std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
  };
  for (const auto& [name, content] : files) {
    std::string packed = content;
    if (deflated) {
      std::vector<Bytef> buffer(compressBound(content.size()));
      uLongf size = buffer.size();
      compress(buffer.data(), &size, reinterpret_cast<const Bytef*>(content.data()), content.size());
      packed.assign(buffer.begin() + 2,
                    buffer.begin() + static_cast<std::ptrdiff_t>(size) - 4);  // raw deflate
    }
    const auto offset = static_cast<std::uint32_t>(out.size());
    const auto crc = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())));
    std::string common;
    put(common, 20, 2);
    put(common, 0, 2);
    put(common, deflated ? 8 : 0, 2);
    put(common, 0, 4);
    put(common, crc, 4);
    put(common, static_cast<std::uint32_t>(packed.size()), 4);
    put(common, static_cast<std::uint32_t>(content.size()), 4);
    put(common, static_cast<std::uint32_t>(name.size()), 2);
    put(common, 0, 2);
    put(out, 0x04034b50, 4);
    out += common + name + packed;
    put(directory, 0x02014b50, 4);
    put(directory, 20, 2);
    directory += common;
    put(directory, 0, 2);  // comment
    put(directory, 0, 2);  // disk
    put(directory, 0, 2);  // internal attributes
    put(directory, 0, 4);  // external attributes
    put(directory, offset, 4);
    directory += name;
  }
  const auto begin = static_cast<std::uint32_t>(out.size());
  out += directory;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, static_cast<std::uint32_t>(files.size()), 2);
  put(out, static_cast<std::uint32_t>(files.size()), 2);
  put(out, static_cast<std::uint32_t>(directory.size()), 4);
  put(out, begin, 4);
  put(out, 0, 2);
  return out;
}

TEST_F(QuantizeCommandTest, WritesAModelThatCompilesAndVerifies) {
  const std::string model = float_model(), data = samples("data.npy", 60);
  const Outcome made = millrace({"quantize", model, "--data", data, "--labels",
                                 labels("labels.npy", std::vector<std::uint8_t>(60, 1)), "-o", path("q.onnx"),
                                 "--report", path("page.html"), "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const json::value root = json::parse(made.out);
  EXPECT_EQ(root.at("calibration_samples").as_int64(), 30);
  EXPECT_EQ(root.at("score").at("samples").as_int64(), 30);
  EXPECT_GE(root.at("score").at("same_answer").as_int64(), 28);
  EXPECT_GT(root.at("sqnr_db").to_number<double>(), 25);
  EXPECT_EQ(root.at("layers").as_array().size(), 2U);
  EXPECT_NE(read_text_file(path("page.html"))->find("<!doctype html>"), std::string::npos);
  const Outcome compiled =
      millrace({"compile", path("q.onnx"), "--cluster", cluster(), "-o", path("d"), "-q"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  EXPECT_EQ(millrace({"verify", path("d"), "--frames", "3"}).exit_code, 0);
}

TEST_F(QuantizeCommandTest, CompileWithCalibrationSamplesKeepsTheQuantisedModel) {
  const std::string model = float_model(), data = samples("data.npy", 40);
  const Outcome refused = millrace({"compile", model, "--cluster", cluster(), "-o", path("d")});
  expect_error(refused, 2, {"is a float model", "millrace quantize MODEL --data", "compile MODEL --data"});
  const Outcome made =
      millrace({"compile", model, "--data", data, "--cluster", cluster(), "-o", path("d"), "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(json::parse(made.out).at("kind").as_string(), "deployment");
  EXPECT_NE(read_text_file(path("d/CHECKSUMS"))->find("quantised.onnx"), std::string::npos);
  EXPECT_EQ(millrace({"verify", path("d"), "--inputs", data}).exit_code, 0);
  EXPECT_EQ(millrace({"compile", path("d/quantised.onnx"), "--cluster", cluster(), "-o", path("e"), "-q"})
                .exit_code,
            0);
}

TEST_F(QuantizeCommandTest, ErrorNamesTheFaultInTheCalibrationSamples) {
  const std::string model = float_model(), data = samples("data.npy", 40);
  const auto quantize = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"quantize", model, "-o", path("q.onnx")});
    return millrace(more);
  };
  expect_error(quantize({}), 2, {"--data is missing"});
  expect_error(quantize({"--data", "wrong=" + data}), 2, {"no input 'wrong'", "inputs are 'x'"});
  expect_error(quantize({"--data", samples("wrong.npy", 40, 7)}), 2,
               {"--data", "wrong.npy", "input 'x'", "[40,7]"});
  auto bad = random_floats(40 * 8, 9);
  bad[8 * 5 + 3] = NAN;
  ASSERT_TRUE(write_npy(path("nan.npy"), array_of(bad, {40, 8})).ok());
  expect_error(quantize({"--data", path("nan.npy")}), 2, {"sample 5", "input 'x'", "NaN"});
  expect_error(quantize({"--data", data, "--labels", labels("few.npy", {1, 2})}), 2,
               {"--labels", "2 labels", "40 samples"});
  expect_error(quantize({"--data", data, "--labels", labels("l.npy", std::vector<std::uint8_t>(40, 3))}), 2,
               {"entry 0 is 3", "classes 0 to 2"});
  expect_error(quantize({"--data", data, "--keep-float", "conv9"}), 2, {"--keep-float conv9", "first, y"});
  expect_error(quantize({"--data", data, "--calibrate", "41"}), 2, {"40 samples", "41"});
  const Outcome few = quantize({"--data", samples("three.npy", 3)});
  ASSERT_EQ(few.exit_code, 0) << few.err;
  EXPECT_NE(few.out.find("only 3 samples calibrate"), std::string::npos) << few.out;
  expect_error(millrace({"quantize", model, "--data", data, "-o", model}), 2, {"is the model itself"});
}

TEST_F(QuantizeCommandTest, DeclaredActivationFormatReplacesCalibrationSamples) {
  OnnxModel m;
  m.input("x", {1, 2});
  m.floats("w", {2, 2}, {127, -64, 3, 32});
  m.node("Gemm", {"x", "w"}, "y");
  m.output("y");
  ASSERT_TRUE(write_file_atomically(path("net.onnx"), m.bytes()).ok());
  const auto made = [&](const std::string& format) {
    return millrace({"quantize", path("net.onnx"), "--activations", format, "-o", path("q.onnx")});
  };
  EXPECT_EQ(made("int8:7").exit_code, 0) << made("int8:7").err;
  EXPECT_EQ(millrace({"compile", path("q.onnx"), "--cluster", cluster(), "-o", path("d"), "-q"}).exit_code,
            0);
  expect_error(made("int4:3"), 2, {"Gemm 'y'", "weight 127", "int4"});
  expect_error(made("float"), 2, {"--activations float", "int8:7"});
}

TEST_F(QuantizeCommandTest, ReadsSamplesOfSeveralInputsFromOneArchiveOrNamedFiles) {
  OnnxModel m;
  m.input("left", {1, 4});
  m.input("right", {1, 4});
  m.floats("w1", {4, 4}, random_floats(16, 1));
  m.node("Gemm", {"left", "w1"}, "a");
  m.floats("w2", {4, 4}, random_floats(16, 2));
  m.node("Gemm", {"right", "w2"}, "b");
  m.node("Add", {"a", "b"}, "y");
  m.output("y");
  ASSERT_TRUE(write_file_atomically(path("net.onnx"), m.bytes()).ok());
  const std::string left = samples("left.npy", 30, 4), right = samples("right.npy", 30, 4);
  const auto npy = [](const std::string& file) { return *read_text_file(file); };
  for (const bool deflated : {false, true})
    ASSERT_TRUE(write_file_atomically(path(deflated ? "packed.npz" : "both.npz"),
                                      zip({{"right.npy", npy(right)}, {"left.npy", npy(left)}}, deflated))
                    .ok());
  std::string first;
  for (const auto& files : std::vector<std::vector<std::string>>{
           {path("both.npz")}, {path("packed.npz")}, {"right=" + right, "left=" + left}}) {
    std::vector<std::string> arguments{"quantize", path("net.onnx"), "-o", path("q.onnx")};
    for (const auto& file : files) arguments.insert(arguments.end(), {"--data", file});
    const Outcome made = millrace(arguments);
    ASSERT_EQ(made.exit_code, 0) << made.err;
    const std::string bytes = *read_text_file(path("q.onnx"));
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << files[0];
  }
  ASSERT_EQ(millrace({"compile", path("q.onnx"), "--cluster", cluster(), "-o", path("d"), "-q"}).exit_code,
            0);
  const Outcome verified = millrace({"verify", path("d"), "--inputs", path("both.npz")});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_NE(verified.out.find("30 frames"), std::string::npos) << verified.out;
  EXPECT_EQ(
      millrace({"verify", path("d"), "--inputs", "left=" + left, "--inputs", "right=" + right}).exit_code, 0);
  expect_error(millrace({"verify", path("d"), "--inputs", left}), 2, {"2 inputs", "'left', 'right'", ".npz"});
  const std::string whole = npy(path("packed.npz"));
  ASSERT_TRUE(write_file_atomically(path("cut.npz"), whole.substr(0, whole.size() / 2)).ok());
  expect_error(millrace({"verify", path("d"), "--inputs", path("cut.npz")}), 2, {"cut.npz", "zip archive"});
  std::string flipped = npy(path("both.npz"));
  flipped[flipped.find("\x93NUMPY") + 200] ^= 1;  // in the elements of the first array
  ASSERT_TRUE(write_file_atomically(path("flipped.npz"), flipped).ok());
  expect_error(millrace({"verify", path("d"), "--inputs", path("flipped.npz")}), 2,
               {"flipped.npz", "'right.npy'", "checksum"});
}

/// Computes left W1 + right W2 in double precision for each frame. W1 and W2 are 4 x 4 matrices.
std::vector<double> sums_of_products(const NpyArray& left, const NpyArray& right,
                                     const std::vector<float>& w1, const std::vector<float>& w2) {
  std::vector<double> sums;
  const auto at = [](const NpyArray& a, std::size_t i) {
    float f = 0;
    std::memcpy(&f, a.data.data() + i * sizeof f, sizeof f);
    return static_cast<double>(f);
  };
  for (std::size_t frame = 0; frame < left.shape[0]; ++frame)
    for (std::size_t out = 0; out < 4; ++out) {
      double sum = 0;
      for (std::size_t in = 0; in < 4; ++in)
        sum += at(left, frame * 4 + in) * static_cast<double>(w1[in * 4 + out]) +
               at(right, frame * 4 + in) * static_cast<double>(w2[in * 4 + out]);
      sums.push_back(sum);
    }
  return sums;
}

TEST_F(QuantizeCommandTest, ModelWithTwoInputsAnswersOverHttpAndUdpAlike) {
  using std::chrono_literals::operator""s;
  OnnxModel m;
  m.input("left", {1, 4});
  m.input("right", {1, 4});
  const std::vector<float> w1 = random_floats(16, 1), w2 = random_floats(16, 2);
  m.floats("w1", {4, 4}, w1);
  m.node("Gemm", {"left", "w1"}, "a");
  m.floats("w2", {4, 4}, w2);
  m.node("Gemm", {"right", "w2"}, "b");
  m.node("Add", {"a", "b"}, "y");
  m.output("y");
  ASSERT_TRUE(write_file_atomically(path("net.onnx"), m.bytes()).ok());
  const NpyArray left_array = array_of(random_floats(40, 5), {10, 4});
  const NpyArray right_array = array_of(random_floats(40, 6), {10, 4});
  ASSERT_TRUE(write_npy(path("left.npy"), left_array).ok());
  ASSERT_TRUE(write_npy(path("right.npy"), right_array).ok());
  const std::string left = path("left.npy"), right = path("right.npy");
  ASSERT_TRUE(write_file_atomically(
                  path("both.npz"),
                  zip({{"right.npy", *read_text_file(right)}, {"left.npy", *read_text_file(left)}}, true))
                  .ok());
  const Outcome compiled = millrace({"compile", path("net.onnx"), "--data", path("both.npz"), "--cluster",
                                     cluster(), "--name", "net", "-o", path("d"), "-q"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;

  BackgroundProgram server({millrace_binary(), "serve", "--deployment", path("d"), "--http", "127.0.0.1:0",
                            "--udp", "127.0.0.1:0"});
  const auto http = server.wait_for_line("listening http ", 60s);
  const auto udp = server.wait_for_line("listening udp ", 60s);
  ASSERT_TRUE(http && udp) << server.err();
  const std::string url = "http://" + *http;
  std::vector<Outcome> asked;
  asked.push_back(millrace({"infer", "--url", url, "--input", path("both.npz"), "--output", path("0.npy")}));
  asked.push_back(millrace({"infer", "--url", url, "--input", "right=" + right, "--input", "left=" + left,
                            "--output", path("1.npy")}));
  for (const auto& [at, file] : {std::pair(url, "2.npy"), std::pair("udp://" + *udp, "3.npy")})
    asked.push_back(run_python_client(
        {"--url", at, "--model", "net", "--input", left, "--input", right, "--output", path(file)}));
  const std::vector<double> wanted = sums_of_products(left_array, right_array, w1, w2);
  std::vector<std::byte> first;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    ASSERT_EQ(asked[i].exit_code, 0) << asked[i].err;
    const auto answers = read_npy(path(std::to_string(i) + ".npy"));
    ASSERT_TRUE(answers.ok()) << answers.error().message();
    ASSERT_EQ(answers->elements(), wanted.size());
    if (first.empty()) first = answers->data;
    EXPECT_TRUE(answers->data == first) << "way " << i;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    float got = 0;
    std::memcpy(&got, first.data() + i * sizeof got, sizeof got);
    EXPECT_NEAR(static_cast<double>(got), wanted[i], 0.05) << "element " << i;
  }
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

}  // namespace
}  // namespace millrace::tests::test_quantize_command
