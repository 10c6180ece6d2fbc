// Compares the SystemVerilog of two small nets byte for byte with golden files. After an intended change, run
// MILLRACE_UPDATE_GOLDEN=1 test_rtl_text and read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/emit/rtl/text.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/weights.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/programs.hpp"

namespace millrace::test_rtl_text {
namespace {

using compiler::generators::Design;
using compiler::generators::Folding;
using compiler::generators::WindowStyle;
using runtime::plan::ImagePort;
using runtime::plan::PortKind;

kernels::Program card_part(const kernels::Program& whole) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t b = 0; b < whole.blocks.size(); ++b)
    if (!kernels::is_host_only(whole, whole.blocks[b])) blocks.push_back(b);
  return kernels::extract(whole, blocks, "part0");
}

/// Emits a design. Costs are set to zero, because the cost model can change although the emitter does not. If `sends`
/// is true, the output also goes to a link.
compiler::emit::Rtl written(Design design, const kernels::Program& program, bool sends) {
  design.cost = {};
  for (auto& block : design.blocks) block.cost = {};
  const auto& in = design.inputs.front();
  const auto& out = design.outputs.front();
  const auto port = [&](const auto& from, PortKind kind) {
    const auto& stream = design.netlist.streams[from.stream];
    return ImagePort{from.name, kind, "", 0, 0, from.type, stream.lanes * stream.beats};
  };
  std::vector<ImagePort> ports = {port(in, PortKind::kIngress), port(out, PortKind::kEgress)};
  if (sends) ports.push_back(port(out, PortKind::kLinkSend));
  compiler::emit::RtlOptions options;
  options.device.clock_mhz = 156.25;
  options.device.name = "ku060";
  options.generator = "millrace";
  if (sends) options.device.regions = {{"all", {111360, 56160, 222720, 1080, 360, 0}, {}, ""}};
  auto rtl = compiler::emit::emit_rtl(design, program, ports, options);
  if (!rtl.ok()) ADD_FAILURE() << rtl.error().message();
  return rtl.ok() ? *rtl : compiler::emit::Rtl{};
}

/// Emits a net with two convolutions, a pool and an addition.
compiler::emit::Rtl small_net() {
  const kernels::Program program = card_part(tests::skip_program(2));
  Folding first, pool, second, add;
  first.pe = 2;
  first.simd = 18;
  first.window = WindowStyle::kParallel;
  first.multiplier = compiler::generators::Multiplier::kDspPair;
  pool.simd = 2;
  second.pe = 4;
  second.simd = 4;
  second.window = WindowStyle::kFolded;
  second.window_lanes = 4;
  add.simd = 4;
  Design design = compiler::generators::assemble(compiler::generators::load_catalog().value(), program,
                                                 {first, pool, second, add})
                      .value();
  return written(std::move(design), program, true);
}

/// Emits a net with two fully connected layers. The weights of the first layer are streamed from memory, those of the
/// second are loaded.
compiler::emit::Rtl streaming_net() {
  kernels::Program program;
  program.name = "part0";
  const kernels::ElementType int8{kernels::ElementType::Kind::kSigned, 8};
  constexpr std::uint32_t kSizes[] = {64, 64, 8};
  for (const std::uint32_t size : kSizes)
    program.tensors.push_back({"t" + std::to_string(program.tensors.size()), int8, {1, 1, size}, {}, 0});
  program.inputs = {0};
  program.outputs = {2};
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    kernels::Convolution dense;
    dense.out_channels = kSizes[layer + 1];
    dense.weight_type = int8;
    dense.accumulator = {kernels::ElementType::Kind::kSigned, 24};
    for (std::uint32_t i = 0; i < kSizes[layer] * kSizes[layer + 1]; ++i)
      dense.weights.edit().push_back(static_cast<std::int16_t>(static_cast<int>(i * 37 % 251) - 125));
    kernels::Requantise step;
    step.multiplier = {77};
    step.offset = {1000};
    step.shift = {14};
    step.lowest = -128;
    step.highest = 127;
    dense.requantise = step;
    program.blocks.push_back({"dense" + std::to_string(layer), {}, {layer}, {layer + 1}, dense});
  }
  if (const Status placed = compiler::place_parameters(program, kernels::Placement::kStreamed); !placed.ok())
    ADD_FAILURE() << placed.error().message();
  Folding first, second;
  first.pe = 4;
  first.simd = 4;
  second.pe = 2;
  second.simd = 4;
  first.weights = second.weights = kernels::Placement::kStreamed;
  Design design =
      compiler::generators::assemble(compiler::generators::load_catalog().value(), program, {first, second})
          .value();
  return written(std::move(design), program, false);
}

/// Compares the emitted files `names` with the golden files in tests/golden/rtl/`below`. If MILLRACE_UPDATE_GOLDEN is
/// set, rewrites the golden files instead.
void hold_to(const compiler::emit::Rtl& rtl, const std::string& below,
             const std::vector<std::string>& names) {
  const std::string folder = std::string(tests::source_dir()) + "/tests/golden/rtl/" + below;
  for (const std::string& name : names) {
    ASSERT_TRUE(rtl.files.contains(name)) << name;
    std::string text = rtl.files.at(name);
    if (const auto at = text.find(rtl.digest); name == "design.json" && at != std::string::npos)
      text.replace(at, rtl.digest.size(), "(digest)");
    if (std::getenv("MILLRACE_UPDATE_GOLDEN") != nullptr) {
      std::filesystem::create_directories(folder);
      std::ofstream(folder + name, std::ios::binary) << text;
      continue;
    }
    std::ostringstream golden;
    golden << std::ifstream(folder + name, std::ios::binary).rdbuf();
    EXPECT_EQ(text, golden.str()) << below << name;
  }
}

TEST(RtlText, FilesOfASmallNetMatchTheGoldenFiles) {
  hold_to(small_net(), "",
          {"part0_dataflow.sv", "part0_top.sv", "conv0_weights.hex", "conv0_requant.hex", "design.json"});
}

TEST(RtlText, StreamedWeightsAreWrittenToNoHexFile) {
  const auto rtl = streaming_net();
  hold_to(rtl, "streamed/", {"part0_dataflow.sv", "part0_top.sv", "design.json"});
  for (const auto& [name, text] : rtl.files) EXPECT_FALSE(name.ends_with(".hex")) << name;
  ASSERT_EQ(rtl.streamed.size(), 64U * 64U);
  // The first 16 streamed bytes are the weights of inputs 0 to 3 for outputs 0 to 3.
  for (std::uint32_t o = 0; o < 4; ++o)
    for (std::uint32_t i = 0; i < 4; ++i)
      EXPECT_EQ(static_cast<std::int8_t>(rtl.streamed[o * 4 + i]),
                static_cast<int>((o * 64 + i) * 37 % 251) - 125)
          << o << ", " << i;
}

TEST(RtlText, EqualDesignsGiveEqualFiles) {
  const auto once = small_net(), again = small_net();
  EXPECT_EQ(once.files, again.files);
  EXPECT_EQ(once.digest, again.digest);
}

TEST(RtlText, LongLinesAreBrokenOnlyWhereSystemVerilogAllowsIt) {
  const std::string many(40, 'n');
  const std::string names = many + ", " + many + ", " + many + ", " + many;  // 166 characters
  const auto broken = [](const std::string& line) { return compiler::emit::broken_lines(line + "\n"); };
  const std::string first = many + ", " + many + ", " + many + ",";
  EXPECT_EQ(broken("  logic " + names + ";"), "  logic " + first + "\n      " + many + ";\n");
  EXPECT_EQ(broken("///   " + names), "///   " + first + "\n///   " + many + "\n");
  EXPECT_EQ(broken("  a; // " + names), "  a; // " + first + "\n      // " + many + "\n");
  const std::string code = "  " + std::string(136, 'c') + ";";
  EXPECT_EQ(broken(code + " // why it is so"), code + "\n      // why it is so\n");
  EXPECT_EQ(broken("`define A " + names), "`define A " + names + "\n");
  EXPECT_EQ(broken("  f(\"" + names + "\");"), "  f(\"" + names + "\");\n") << "a string";
  EXPECT_EQ(broken(std::string(200, 'x')), std::string(200, 'x') + "\n");
  EXPECT_EQ(broken("  short // line"), "  short // line\n");
}

}  // namespace
}  // namespace millrace::test_rtl_text
