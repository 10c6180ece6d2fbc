// Tests the processes of emulated cards: when a program that uses only XRT starts them, after that program has ended
// suddenly, and if settings are missing.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emulated_host.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/emulator/backend.hpp"
#include "served_model.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/process.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_emulated_process {
namespace {

namespace emulator = runtime::emulator;
using Kind = runtime::plan::PortKind;

constexpr std::uint32_t kElements = 500;
const std::string kHost = std::string(tests::binary_dir()) + "/tests/three_cards_host";

class Backend : public testing::Environment {
  void SetUp() override {
    const auto status = emulator::select_backend(test_cluster());
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

std::string hexadecimal(const Frame& frame) {
  std::string text;
  for (const auto byte : frame) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
    text += digits;
  }
  return text;
}

/// Three FPGA images in files, and the expected result of sending the bytes 0, 1, 2, … through them.
struct ThreeImages {
  ThreeImages() {
    const kernels::Program programs[] = {lookup_program(kElements, 1), lookup_program(kElements, 2),
                                         lookup_program(kElements, 3)};
    write("a.xclbin", image_data(programs[0], {{"in0", Kind::kIngress}, {"out0", Kind::kLinkSend}}));
    write("b.xclbin", image_data(programs[1], {{"in0", Kind::kLinkReceive}, {"out0", Kind::kLinkSend}}));
    write("c.xclbin", image_data(programs[2], {{"in0", Kind::kLinkReceive}, {"out0", Kind::kEgress}}));
    Frame frame(kElements);
    for (std::uint32_t i = 0; i < kElements; ++i) frame[i] = static_cast<std::byte>(i);
    for (const auto& program : programs) frame = kernels::reference::run(program, {frame}).front();
    result = hexadecimal(frame);
  }
  void write(const char* name, const runtime::plan::EmulationData& data) {
    const auto path = folder.path() / name;
    ASSERT_TRUE(write_file_atomically(path, container(data)).ok());
    files.push_back(path.string());
  }
  std::vector<std::string> command(const char* what) const {
    return {kHost, files[0], files[1], files[2], std::to_string(kElements), std::to_string(kElements), what};
  }
  TemporaryDirectory folder{"millrace-three-images"};
  std::vector<std::string> files;
  std::string result;
};

/// Whether the process ignores the signal, according to /proc.
bool ignores(pid_t process, int signal) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigIgn:")) return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U;
  return false;
}

bool has_ended(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(status, line)) return true;
  const auto name_end = line.rfind(')');
  return name_end != std::string::npos && line.size() > name_end + 2 && line[name_end + 2] == 'Z';
}

bool all_end(const std::vector<pid_t>& processes) {
  return wait_until([&] { return std::all_of(processes.begin(), processes.end(), has_ended); });
}

/// Returns the number of this process's open file descriptors after it has closed the descriptors of ended cards.
std::size_t descriptors_after_cards_ended() {
  EXPECT_TRUE(await_rest());
  return open_descriptors(getpid());
}

TEST(EmulatedProcess, RunsAFrameThroughThreeCardsWithXrtAlone) {
  ThreeImages images;
  const auto outcome = run_program(images.command("print"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, images.result + "\n");
}

/// Returns the integer part of the model in an ONNX file, between its quantiser and its dequantiser.
kernels::Program integers_of(const std::filesystem::path& model) {
  const kernels::Program program = program_of(model);
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t i = 0; i < program.blocks.size(); ++i)
    if (!kernels::is_host_only(program, program.blocks[i])) blocks.push_back(i);
  return kernels::extract(program, blocks, "integers");
}

TEST(EmulatedProcess, RunsACompiledLeNetOnThreeCardsWithXrtAlone) {
  const std::filesystem::path source = tests::source_dir();
  const auto model = source / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  const TemporaryDirectory folder("millrace-three-of-lenet");
  const auto made = folder.path() / "lenet";
  const auto compiled = run_program({millrace_binary(), "compile", model.string(), "--cluster",
                                     (source / "configs/clusters/three-ku060.yaml").string(), "--partitions",
                                     "3", "-o", made.string(), "--quiet"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;

  const auto program = integers_of(model);
  const auto in = program.tensors[program.inputs.at(0)].elements();
  Frame frame(in);
  for (std::size_t i = 0; i < in; ++i) frame[i] = static_cast<std::byte>(i);
  const Frame expected = kernels::reference::run(program, {frame}).front();
  std::vector<std::string> command = {kHost};
  for (const char* image : {"image0", "image1", "image2"})
    command.push_back((made / "images" / (std::string(image) + ".xclbin")).string());
  command.insert(command.end(), {std::to_string(in), std::to_string(expected.size()), "print"});
  // The cards and cables of test_cluster(). Each card has as much memory as its device.
  const std::string cards =
      "card fpga0 ku060 8589934592;card fpga1 ku060 8589934592;card fpga2 ku060 8589934592";
  const auto outcome = run_program(
      command, {"MILLRACE_EMULATION=millrace-emulation 1;" + cards + ";cable 0.0 1.0;cable 1.1 2.0"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, hexadecimal(expected) + "\n");
}

TEST(EmulatedProcess, LeavesNoCardProcessWhenTheProgramIsKilledOrExits) {
  ThreeImages images;
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV}) {
    BackgroundProgram program(images.command("stay"));
    EXPECT_EQ(program.wait_for_line("", std::chrono::seconds(60)), images.result);
    const auto cards = children_named(program.pid(), "millrace-card");
    ASSERT_EQ(cards.size(), 3u);
    program.stop(signal);
    EXPECT_TRUE(all_end(cards)) << "after signal " << signal;
  }
  BackgroundProgram program(images.command("exit"));
  EXPECT_TRUE(program.wait_for_line("", std::chrono::seconds(60)).has_value());
  EXPECT_TRUE(wait_until([&] { return !program.running(); }));
  EXPECT_TRUE(children_named(program.pid(), "millrace-card").empty());
}

TEST(EmulatedProcess, CardProcessesIgnoreSignalsThatStopOrReloadTheServer) {
  ThreeImages images;
  BackgroundProgram program(images.command("stay"));
  ASSERT_TRUE(program.wait_for_line("", std::chrono::seconds(60)).has_value());
  const auto cards = children_named(program.pid(), "millrace-card");
  ASSERT_EQ(cards.size(), 3u);
  for (const pid_t card : cards)
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) EXPECT_TRUE(ignores(card, signal)) << signal;
}

TEST(EmulatedProcess, CardProcessesInheritNoDescriptorOfTheProgram) {
  ThreeImages images;
  BackgroundProgram program(images.command("stay"));
  ASSERT_TRUE(program.wait_for_line("", std::chrono::seconds(60)).has_value());
  for (const pid_t card : children_named(program.pid(), "millrace-card"))
    EXPECT_LE(open_descriptors(card), 8u) << "standard streams and five of its own";
}

TEST(EmulatedProcess, LoadingClosingAndKillingACardLeaksNoDescriptor) {
  const auto image =
      container(image_data(lookup_program(kElements, 1), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}}));
  device(3);
  std::size_t before = 0;
  for (int i = 0; i < 20; ++i) {
    const auto uuid = load(3, image);
    const auto process = card_process("fpga3");
    ASSERT_GT(process, 0);
    ASSERT_EQ(kill(process, SIGKILL), 0);
    ASSERT_TRUE(await_end(process));
    EXPECT_THROW(std::make_unique<Control>(3, uuid), std::exception);
    if (i == 4) before = descriptors_after_cards_ended();
  }
  EXPECT_EQ(descriptors_after_cards_ended(), before);
  EXPECT_EQ(card_process("fpga3"), 0);
}

TEST(EmulatedProcess, ProgrammingTakesTheConfiguredTime) {
  ThreeImages images;
  const auto begin = std::chrono::steady_clock::now();
  const auto text = std::string(std::getenv("MILLRACE_EMULATION")) + ";options program_time=100";
  EXPECT_EQ(run_program(images.command("print"), {"MILLRACE_EMULATION=" + text}).out, images.result + "\n");
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
}

TEST(EmulatedProcess, XrtReportsAnInvalidDescriptionOfTheEmulatedCardsOrAWrongCardProgram) {
  ThreeImages images;
  for (const char* machine : {"", "nonsense", "millrace-emulation 1;card a ku060 4096;cable 0.0 7.0"}) {
    const auto outcome = run_program(images.command("print"), {std::string("MILLRACE_EMULATION=") + machine});
    EXPECT_EQ(outcome.exit_code, 1) << machine;
    EXPECT_NE(outcome.err.find("MILLRACE_EMULATION"), std::string::npos) << outcome.err;
  }
  for (const char* card : {"/nonexistent/card", "/bin/true"}) {
    const auto outcome = run_program(images.command("print"), {std::string("MILLRACE_CARD=") + card});
    EXPECT_EQ(outcome.exit_code, 1) << card;
    EXPECT_NE(outcome.err.find("card process"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace millrace::tests::test_emulated_process
