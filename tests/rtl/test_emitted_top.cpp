// Tests the emitted SystemVerilog of whole partitions, including the shell, in Verilator simulations. The test bench in
// kernels/tb drives the AXI ports as a host would. Every result must equal kernels/reference byte for byte. LeNet-5, as
// `compile` emits it, is simulated both with its top module and with the Vitis kernel around the top module.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "compiler/compile.hpp"
#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/weights.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "runtime/base/process.hpp"
#include "runtime/plan/image.hpp"
#include "tests/paths/paths.hpp"
#include "tests/shortcuts/foldings.hpp"
#include "tests/support/programs.hpp"

namespace millrace::test_emitted_top {
namespace {

using compiler::generators::Design;
using kernels::ElementType;
using kernels::Program;
using Buffer = kernels::reference::Buffer;

constexpr int kFrames = 3;
constexpr std::uint32_t kEmulationData = 21;  // axlf_section_kind EMULATION_DATA
constexpr const char* kNoTool = "MILLRACE_RTL_SWEEP is not set: ctest sets it to the tool and the bench";

void write_bytes(const std::filesystem::path& file, const Buffer& content) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
}

/// Returns a program with only those blocks of the model that run on a card.
Program card_part(const Program& whole) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t b = 0; b < whole.blocks.size(); ++b)
    if (!kernels::is_host_only(whole, whole.blocks[b])) blocks.push_back(b);
  return kernels::extract(whole, blocks, "part0");
}

/// Returns a program with two inputs and two outputs. It adds two int8 pictures; the first output is the sum, the
/// second output is the sum after 2x2 max pooling, which arrives later.
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

/// Returns a program with two fully connected layers and random weights from `seed`. The first layer has many weights.
Program dense(unsigned seed) {
  std::mt19937 random(seed);
  Program program;
  program.name = "part0";
  const ElementType int8{ElementType::Kind::kSigned, 8};
  constexpr std::uint32_t kSizes[] = {72, 64, 10};
  for (const std::uint32_t size : kSizes)
    program.tensors.push_back({"t" + std::to_string(program.tensors.size()), int8, {1, 1, size}, {}, 0});
  program.inputs = {0};
  program.outputs = {2};
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    kernels::Convolution made;
    made.out_channels = kSizes[layer + 1];
    made.weight_type = int8;
    made.accumulator = {ElementType::Kind::kSigned, 24};
    for (std::uint32_t i = 0; i < kSizes[layer] * kSizes[layer + 1]; ++i)
      made.weights.edit().push_back(static_cast<std::int16_t>(between(-127, 127)));
    kernels::Requantise step;
    step.lowest = -128;
    step.highest = 127;
    for (std::uint32_t c = 0; c < made.out_channels; ++c) {
      made.bias.push_back(between(-300, 300));
      step.multiplier.push_back(between(20000, 60000));
      step.offset.push_back(between(-100000, 100000));
      step.shift.push_back(24);
    }
    made.requantise = step;
    program.blocks.push_back({"dense" + std::to_string(layer), {}, {layer}, {layer + 1}, made});
  }
  return program;
}

/// Which ports of a partition are links to other cards. All links use row 0 of the link table.
enum class Links { kNone, kInput, kOutput };

class EmittedTop : public testing::Test {
 protected:
  void run(const Program& program, std::uint64_t interval) {
    const TemporaryDirectory directory("emitted_top");
    emit(program, interval, Links::kNone, directory.path() / "rtl");
    if (HasFatalFailure() || IsSkipped()) return;
    sweep(directory.path(), {directory.path() / "rtl"});
  }

  /// Simulates one hardware design with several versions of its parameters, which are loaded alternately.
  void run_loaded(const std::vector<Program>& versions, kernels::Placement placement,
                  std::uint64_t interval) {
    const TemporaryDirectory directory("emitted_top");
    const auto folder = directory.path() / "rtl";
    for (std::size_t v = 0; v < versions.size(); ++v) {
      Program program = versions[v];
      const Status placed = compiler::place_parameters(program, placement);
      ASSERT_TRUE(placed.ok()) << placed.error().message();
      compiler::emit::Rtl made;
      emit(program, interval, Links::kNone, folder, &made);
      if (HasFatalFailure() || IsSkipped()) return;
      write_frames(program, folder, folder, static_cast<int>(v) * kFrames);
      const std::string name = std::to_string(v) + ".bin";
      write_bytes(folder / "bench" / ("load." + name), made.load);
      write_bytes(folder / "bench" / ("streamed." + name), made.streamed);
      EXPECT_EQ(made.streamed.empty(), placement != kernels::Placement::kStreamed);
    }
    sweep(directory.path(), {folder});
  }

  /// Simulates LeNet-5 as `compile` emits it for one U280, with handwritten digits as input.
  void run_lenet5(bool in_kernel) {
    if (tool() == nullptr) GTEST_SKIP() << kNoTool;
    const std::filesystem::path source = tests::source_dir(), vectors = source / "tests/vectors/lenet5_mnist";
    const TemporaryDirectory directory("lenet5_top");
    compiler::CompileOptions options;
    options.model = vectors / "lenet5_qdq_s8_pow2.onnx";
    options.cluster = source / "configs/clusters/one-u280.yaml";
    options.output = directory.path() / "lenet5";
    const auto made = compiler::compile(options);
    ASSERT_TRUE(made.ok()) << made.error().message();
    ASSERT_EQ(made->plan.images.size(), 1U);
    const auto& partitions = made->plan.partitions;
    const auto named = [&](const std::string& name) {
      return std::find_if(partitions.begin(), partitions.end(),
                          [&](const auto& p) { return p.name == name; });
    };
    ASSERT_NE(named("input"), partitions.end());
    ASSERT_NE(named("part0"), partitions.end());
    const auto image = read_file(options.output / made->plan.images.front().file, 1U << 24U);
    ASSERT_TRUE(image.ok());
    const auto container = runtime::plan::parse_xclbin(*image);
    ASSERT_TRUE(container.ok()) << container.error().message();
    const auto* const section = container->find(kEmulationData);
    ASSERT_NE(section, nullptr);
    const auto data = runtime::plan::decode_emulation_data(section->bytes);
    ASSERT_TRUE(data.ok()) << data.error().message();
    const auto digits = read_npy(vectors / "images_u8.npy");
    ASSERT_TRUE(digits.ok());
    constexpr std::size_t kPixels = 28 * 28;
    const auto folder = options.output / "rtl/part0";
    std::filesystem::create_directories(folder / "bench");
    std::set<std::string> answers;
    for (std::size_t frame = 0; frame < kFrames; ++frame) {
      Buffer pixels(kPixels * sizeof(float));
      for (std::size_t i = 0; i < kPixels; ++i) {
        const float value =
            static_cast<float>(std::to_integer<int>(digits->data[frame * kPixels + i])) / 255.0F;
        std::memcpy(&pixels[i * sizeof value], &value, sizeof value);
      }
      const auto in = kernels::reference::run(named("input")->program, {pixels});
      const auto out = kernels::reference::run(data->programs.front(), in);
      const std::string number = "." + std::to_string(frame) + ".bin";
      write_bytes(folder / "bench" / ("in0" + number), in.front());
      write_bytes(folder / "bench" / ("out0" + number), out.front());
      answers.emplace(reinterpret_cast<const char*>(out.front().data()), out.front().size());
    }
    EXPECT_EQ(answers.size(), std::size_t{kFrames}) << "frames that cannot be told apart";
    using Folders = std::vector<std::filesystem::path>;
    sweep(directory.path(), {folder}, in_kernel ? Folders{options.output / "vitis/image0"} : Folders{});
  }

  /// Cuts the program after block `first` and simulates the two parts on two cards with a cable.
  void run_on_two(const Program& program, std::uint32_t first, std::uint64_t interval) {
    std::vector<std::uint32_t> before, behind;
    for (std::uint32_t b = 0; b < program.blocks.size(); ++b) (b <= first ? before : behind).push_back(b);
    const TemporaryDirectory directory("emitted_tops");
    const Program one = kernels::extract(program, before, "part0"),
                  two = kernels::extract(program, behind, "part1");
    emit(one, interval, Links::kOutput, directory.path() / "one");
    if (HasFatalFailure() || IsSkipped()) return;
    emit(two, interval, Links::kInput, directory.path() / "two");
    if (HasFatalFailure()) return;
    // Frames enter the first card and leave the second one, so the expected outputs are those of the whole program.
    write_frames(program, directory.path() / "one", directory.path() / "two");
    sweep(directory.path(), {directory.path() / "one", directory.path() / "two"});
  }

 private:
  static const char* tool() { return std::getenv("MILLRACE_RTL_SWEEP"); }

  static void sweep(const std::filesystem::path& directory, const std::vector<std::filesystem::path>& designs,
                    const std::vector<std::filesystem::path>& kernels = {}) {
    std::vector<std::string> command;
    std::istringstream words(tool());
    for (std::string word; std::getline(words, word, ':');) command.push_back(word);
    command.insert(command.end(), {"--work", (directory / "work").string(), "--design"});
    for (const auto& design : designs) command.push_back(design.string());
    if (!kernels.empty()) command.push_back("--kernel");
    for (const auto& kernel : kernels) command.push_back(kernel.string());
    const auto outcome = run_child(command);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->ok()) << outcome->output;
    EXPECT_NE(outcome->output.find("top: passed"), std::string::npos) << outcome->output;
  }

  static void emit(const Program& program, std::uint64_t interval, Links links,
                   const std::filesystem::path& folder, compiler::emit::Rtl* made = nullptr) {
    if (tool() == nullptr) GTEST_SKIP() << kNoTool;
    ASSERT_EQ(kernels::validate(program), "");
    const auto catalog = compiler::generators::load_catalog();
    ASSERT_TRUE(catalog.ok());
    const runtime::plan::Resources plenty{1'000'000, 1'000'000, 1'000'000, 4'000, 1'000, 0};
    const auto foldings = tests::choose_foldings(*catalog, program, {plenty, interval});
    ASSERT_TRUE(foldings.ok()) << foldings.error().message();
    const auto design = compiler::generators::assemble(*catalog, program, *foldings);
    ASSERT_TRUE(design.ok()) << design.error().message();
    std::vector<runtime::plan::ImagePort> ports;
    const auto add = [&](const auto& from, runtime::plan::PortKind kind) {
      for (const auto& port : from) {
        const auto& stream = design->netlist.streams[port.stream];
        ports.push_back({port.name, kind, "", 0, 0, port.type, stream.lanes * stream.beats});
      }
    };
    using runtime::plan::PortKind;
    add(design->inputs, links == Links::kInput ? PortKind::kLinkReceive : PortKind::kIngress);
    add(design->outputs, links == Links::kOutput ? PortKind::kLinkSend : PortKind::kEgress);
    compiler::emit::RtlOptions options;
    options.device.clock_mhz = 156.25;
    options.device.name = "none";
    options.generator = "a test";
    options.device.connectors = 2;
    options.links[0] = {64, 16};  // the bench uses at most 64-byte packets and 16 credits
    const auto rtl = compiler::emit::emit_rtl(*design, program, ports, options);
    ASSERT_TRUE(rtl.ok()) << rtl.error().message();
    for (const auto& [path, content] : rtl->files) {
      std::filesystem::create_directories((folder / path).parent_path());
      std::ofstream(folder / path, std::ios::binary) << content;
    }
    if (made != nullptr)
      *made = *rtl;
    else if (links == Links::kNone)
      write_frames(program, folder, folder);
  }

  /// Writes frames for the program's ports: random inputs below the folder `in`, expected outputs below `out`.
  static void write_frames(const Program& program, const std::filesystem::path& in,
                           const std::filesystem::path& out, int first = 0) {
    std::mt19937 random(7);
    const auto name = [](const std::filesystem::path& folder, const char* port, std::size_t i, int frame) {
      std::filesystem::create_directories(folder / "bench");
      return folder / "bench" / (port + std::to_string(i) + "." + std::to_string(frame) + ".bin");
    };
    for (int frame = first; frame < first + kFrames; ++frame) {
      std::vector<Buffer> inputs;
      for (const auto index : program.inputs) {
        const auto& type = program.tensors[index].type;
        Buffer& bytes = inputs.emplace_back(program.tensors[index].storage_bytes());
        for (auto& byte : bytes)
          byte = static_cast<std::byte>(type.lowest() + static_cast<std::int64_t>(random() % 256) %
                                                            (type.highest() - type.lowest() + 1));
        write_bytes(name(in, "in", inputs.size() - 1, frame), bytes);
      }
      const auto outputs = kernels::reference::run(program, inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) write_bytes(name(out, "out", i, frame), outputs[i]);
    }
  }
};

TEST_F(EmittedTop, ReturnsEveryFrameOfAChainOfConvolutions) {
  run(card_part(tests::chain_program(2)), 200);
}

TEST_F(EmittedTop, JoinsTwoInputsAndFeedsTwoOutputs) {
  run(two_and_two(), 36);
}

TEST_F(EmittedTop, ComputesWithTheMostRecentlyLoadedParameters) {
  run_loaded({dense(1), dense(2)}, kernels::Placement::kLoaded, 200);
}

TEST_F(EmittedTop, StreamsTheMostRecentlyLoadedWeights) {
  run_loaded({dense(1), dense(2)}, kernels::Placement::kStreamed, 200);
}

TEST_F(EmittedTop, RecognisesDigitsWithLeNet5) {
  run_lenet5(false);
}

TEST_F(EmittedTop, RecognisesDigitsThroughTheVitisKernel) {
  run_lenet5(true);
}

TEST_F(EmittedTop, SendsFramesOverACableToAnotherTopModule) {
  run_on_two(card_part(tests::chain_program(2)), 1, 200);
}

}  // namespace
}  // namespace millrace::test_emitted_top
