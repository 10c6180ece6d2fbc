#include "served_model.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <chrono>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>

#include "compiler/front/read_model.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"

namespace millrace::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "net";
constexpr std::uint32_t kFrames = 2;

/// Returns a random input frame. Floats are between -2 and 2; integers have any value of their type.
std::string random_frame(const kernels::Tensor& input, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(input.storage_bytes(), '\0');
  if (input.type.kind != kernels::ElementType::Kind::kFloat32) {
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }
  for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    const float value = static_cast<float>(random() % 4001) / 1000.F - 2.F;
    std::memcpy(bytes.data() + i, &value, sizeof value);
  }
  return bytes;
}

std::string reference_answer(const kernels::Program& model, const std::string& frame) {
  const auto bytes = std::as_bytes(std::span(frame));
  const auto outputs = kernels::reference::run(model, {{bytes.begin(), bytes.end()}});
  std::string all;
  for (const auto& output : outputs) all.append(reinterpret_cast<const char*>(output.data()), output.size());
  return all;
}

/// Returns the tensors of the answer to a request in raw mode (whose body is only the tensor). The tensors follow the
/// answer's JSON header.
std::string tensors_of(const HttpResponse& response) {
  const auto length = response.headers.find("inference-header-content-length");
  return length == response.headers.end() ? "" : response.body.substr(std::stoul(length->second));
}

std::vector<std::string> with(std::vector<std::string> command, const std::vector<std::string>& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

}  // namespace

kernels::Program program_of(const fs::path& onnx) {
  compiler::ModelOptions options;
  options.model = onnx;
  std::vector<compiler::StepTime> times;
  compiler::Steps steps(times);
  auto model = compiler::read_model(options, steps);
  if (!model.ok()) throw std::runtime_error(model.error().message());
  return std::move(model->program);
}

fs::path write_one_card(const fs::path& folder, const std::string& device) {
  fs::create_directories(folder / "clusters");
  if (!fs::exists(folder / "devices"))
    fs::create_directory_symlink(fs::path(tests::source_dir()) / "configs/devices", folder / "devices");
  fs::path file = folder / "clusters" / ("one-" + device + ".yaml");
  std::ofstream(file) << "schema: 1\nemulated: true\ncards:\n  - {name: fpga0, device: " << device << "}\n";
  return file;
}

Outcome compile_model(const fs::path& onnx, const fs::path& cluster, const fs::path& deployment,
                      const std::vector<std::string>& more) {
  fs::remove_all(deployment);
  return run_program(with({millrace_binary(), "compile", onnx.string(), "--name", kName, "--cluster",
                           cluster.string(), "-o", deployment.string()},
                          more));
}

void expect_verified(const fs::path& deployment, const std::vector<std::string>& more) {
  const Outcome outcome = run_program(
      with({millrace_binary(), "verify", deployment.string(), "--json", "--frames", std::to_string(kFrames)},
           more));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  const auto document = boost::json::parse(outcome.out);
  EXPECT_EQ(document.at("frames").to_number<std::uint32_t>(), kFrames);
  EXPECT_EQ(document.at("mismatches").to_number<int>(), 0) << outcome.out;
}

void expect_served(const fs::path& deployment, const kernels::Program& model,
                   const std::vector<std::string>& more) {
  using std::chrono_literals::operator""s;
  BackgroundProgram server(
      with({millrace_binary(), "serve", "--deployment", deployment.string(), "--http", "127.0.0.1:0"}, more));
  const auto address = server.wait_for_line("listening http ", 60s);
  ASSERT_TRUE(address) << server.err();
  HttpConnection connection(*address);
  ASSERT_TRUE(connection.connected()) << *address;
  std::string first;
  for (std::uint32_t frame = 1; frame <= kFrames; ++frame) {
    const std::string input = random_frame(model.tensors[model.inputs.at(0)], frame);
    const std::string wanted = reference_answer(model, input);
    EXPECT_NE(wanted, first) << "both frames have the same answer, so this net shows nothing";
    first = wanted;
    const auto answer = connection.request("POST", std::string("/v2/models/") + kName + "/infer", input,
                                           "Inference-Header-Content-Length: 0\r\n");
    ASSERT_TRUE(answer) << server.err();
    ASSERT_EQ(answer->status, 200) << answer->body;
    EXPECT_TRUE(tensors_of(*answer) == wanted) << "frame " << frame << " is not the reference's";
  }
  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
}

}  // namespace millrace::tests
