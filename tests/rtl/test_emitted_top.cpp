// A partition as it is emitted, shell and all: verilated and driven through its AXI ports by a host that the
// bench of kernels/tb plays. Whatever the host does, what it is given back is the reference's bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/generators/design.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"
#include "tests/support/programs.hpp"

namespace millrace {
namespace {

using compiler::generators::Design;
using kernels::ElementType;
using kernels::Program;
using Buffer = kernels::reference::Buffer;

constexpr int kFrames = 3;

void write_bytes(const std::filesystem::path& file, const Buffer& content) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

/// The blocks of a model that run on a card.
Program card_part(const Program& whole) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t b = 0; b < whole.blocks.size(); ++b)
    if (!kernels::is_host_only(whole, whole.blocks[b])) blocks.push_back(b);
  return kernels::extract(whole, blocks, "part0");
}

/// Two images of int8; their sum is an output, and so is, later, the largest of each four of it.
Program two_and_two() {
  Program program;
  program.name = "part0";
  const ElementType int8{ElementType::Kind::kSigned, 8};
  for (const char* name : {"a", "b", "sum"}) program.tensors.push_back({name, int8, {6, 6, 2}, {}, 0});
  program.tensors.push_back({"largest", int8, {3, 3, 2}, {}, 0});
  program.inputs = {0, 1};
  program.outputs = {2, 3};
  kernels::Add add;
  add.multiplier_b = 3;
  add.offset = 1;
  add.shift = 1;
  add.lowest = -128;
  add.highest = 127;
  kernels::MaxPool pool;
  pool.window.kernel_h = pool.window.kernel_w = pool.window.stride_h = pool.window.stride_w = 2;
  program.blocks.push_back({"add", {}, {0, 1}, {2}, add});
  program.blocks.push_back({"pool", {}, {2}, {3}, pool});
  return program;
}

class EmittedTop : public testing::Test {
 protected:
  void run(const Program& program, std::uint64_t interval) {
    const char* const tool = std::getenv("MILLRACE_RTL_SWEEP");
    if (tool == nullptr)
      GTEST_SKIP() << "MILLRACE_RTL_SWEEP is not set: ctest sets it to the tool and the bench";
    ASSERT_EQ(kernels::validate(program), "");
    const auto catalog = compiler::generators::load_catalog();
    ASSERT_TRUE(catalog.ok());
    const runtime::plan::Resources plenty{1'000'000, 1'000'000, 1'000'000, 4'000, 1'000, 0};
    const auto foldings = compiler::generators::choose(*catalog, program, {plenty, interval});
    ASSERT_TRUE(foldings.ok()) << foldings.error().message();
    const auto design = compiler::generators::assemble(*catalog, program, *foldings);
    ASSERT_TRUE(design.ok()) << design.error().message();
    const TemporaryDirectory directory("emitted_top");
    const auto folder = directory.path() / "rtl";
    write(*design, program, folder);

    std::vector<std::string> command;
    std::istringstream words(tool);
    for (std::string word; std::getline(words, word, ':');) command.push_back(word);
    command.insert(command.end(),
                   {"--work", (directory.path() / "work").string(), "--design", folder.string()});
    const auto outcome = run_child(command);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->ok()) << outcome->output;
    EXPECT_NE(outcome->output.find("top: passed"), std::string::npos) << outcome->output;
  }

 private:
  static void write(const Design& design, const Program& program, const std::filesystem::path& folder) {
    std::vector<runtime::plan::ImagePort> ports;
    const auto add = [&](const auto& from, runtime::plan::PortKind kind) {
      for (const auto& port : from) {
        const auto& stream = design.netlist.streams[port.stream];
        ports.push_back({port.name, kind, "", 0, 0, port.type, stream.lanes * stream.beats});
      }
    };
    add(design.inputs, runtime::plan::PortKind::kIngress);
    add(design.outputs, runtime::plan::PortKind::kEgress);
    const auto rtl = compiler::emit::emit_rtl(design, program, ports, {156.25, "none", "a test"});
    ASSERT_TRUE(rtl.ok()) << rtl.error().message();
    for (const auto& [path, content] : rtl->files) {
      std::filesystem::create_directories((folder / path).parent_path());
      std::ofstream(folder / path, std::ios::binary) << content;
    }
    std::filesystem::create_directories(folder / "bench");
    std::mt19937 random(7);
    for (int frame = 0; frame < kFrames; ++frame) {
      std::vector<Buffer> inputs;
      const auto name = [&](const std::string& port) {
        return folder / "bench" / (port + "." + std::to_string(frame) + ".bin");
      };
      for (const auto index : program.inputs) {
        const auto& type = program.tensors[index].type;
        Buffer& bytes = inputs.emplace_back(program.tensors[index].storage_bytes());
        for (auto& byte : bytes)
          byte = static_cast<std::byte>(type.lowest() + static_cast<std::int64_t>(random() % 256) %
                                                            (type.highest() - type.lowest() + 1));
        write_bytes(name(design.inputs[inputs.size() - 1].name), bytes);
      }
      const auto outputs = kernels::reference::run(program, inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) write_bytes(name(design.outputs[i].name), outputs[i]);
    }
  }
};

TEST_F(EmittedTop, ReturnsEveryFrameOfAChainOfConvolutions) {
  run(card_part(tests::chain_program(2)), 200);
}

TEST_F(EmittedTop, MatchesTheFramesOfTwoInputsAndTellsTwoOutputs) {
  run(two_and_two(), 36);
}

}  // namespace
}  // namespace millrace
