// The SystemVerilog of a small net, byte for byte as it was when someone last looked at it. After a change
// that is meant: MILLRACE_UPDATE_GOLDEN=1 test_rtl_text, then read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/generators/design.hpp"
#include "tests/support/programs.hpp"

namespace millrace {
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

/// Two convolutions, a pool and an addition; costs and the library's texts change for other reasons and stay
/// out.
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
  design.cost = {};
  for (auto& block : design.blocks) block.cost = {};
  const auto& in = design.inputs.front();
  const auto& out = design.outputs.front();
  const auto port = [&](const auto& from, PortKind kind) {
    const auto& stream = design.netlist.streams[from.stream];
    return ImagePort{from.name, kind, "", 0, 0, from.type, stream.lanes * stream.beats};
  };
  const std::vector<ImagePort> ports = {port(in, PortKind::kIngress), port(out, PortKind::kEgress),
                                        port(out, PortKind::kLinkSend)};
  compiler::emit::RtlOptions options;
  options.clock_mhz = 156.25;
  options.device = "ku060";
  options.generator = "millrace";
  auto rtl = compiler::emit::emit_rtl(design, program, ports, options);
  if (!rtl.ok()) ADD_FAILURE() << rtl.error().message();
  return rtl.ok() ? *rtl : compiler::emit::Rtl{};
}

TEST(RtlText, ASmallNetIsWrittenAsItAlwaysWas) {
  const auto rtl = small_net();
  const std::string folder = std::string(MILLRACE_SOURCE_DIR) + "/tests/golden/rtl/";
  for (const std::string name :
       {"part0_dataflow.sv", "part0_top.sv", "conv0_weights.hex", "conv0_requant.hex", "design.json"}) {
    ASSERT_TRUE(rtl.files.contains(name)) << name;
    std::string text = rtl.files.at(name);
    if (const auto at = text.find(rtl.digest); name == "design.json" && at != std::string::npos)
      text.replace(at, rtl.digest.size(), "(digest)");
    if (std::getenv("MILLRACE_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(folder + name, std::ios::binary) << text;
      continue;
    }
    std::ostringstream golden;
    golden << std::ifstream(folder + name, std::ios::binary).rdbuf();
    EXPECT_EQ(text, golden.str()) << name;
  }
}

TEST(RtlText, EqualDesignsAreEqualBytes) {
  const auto once = small_net(), again = small_net();
  EXPECT_EQ(once.files, again.files);
  EXPECT_EQ(once.digest, again.digest);
}

}  // namespace
}  // namespace millrace
