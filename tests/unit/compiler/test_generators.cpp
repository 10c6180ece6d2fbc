// Tests foldings (the parallelism of blocks), netlists, timing and designs: what is refused, what is built, and whether
// these parts agree.
//
// This source has more than 500 lines because all tests use the same few designs, which the functions below make.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/generators/design.hpp"
#include "compiler/generators/first_frame.hpp"
#include "compiler/generators/timing.hpp"
#include "kernels/program/rearrange.hpp"
#include "tests/shortcuts/foldings.hpp"
#include "tests/support/programs.hpp"

namespace millrace::compiler::generators::test_generators {
namespace {

using kernels::Convolution;
using kernels::ElementType;
using kernels::Program;

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};

const Catalog& catalog() {
  static const Catalog loaded = load_catalog().value();
  return loaded;
}

/// Returns a partition that is only a 3x3 convolution from [6, 8, 4] to 8 channels. The weights are 1, -2, 3, -4 …
Program convolution(std::int16_t first_weight = 1) {
  Program program;
  program.name = "part0";
  program.tensors.push_back({"x", kInt8, {6, 8, 4}, {}, 0});
  program.tensors.push_back({"y", kInt8, {4, 6, 8}, {}, 0});
  program.inputs = {0};
  program.outputs = {1};
  Convolution layer;
  layer.window.kernel_h = layer.window.kernel_w = 3;
  layer.out_channels = 8;
  layer.weight_type = kInt8;
  layer.accumulator = {ElementType::Kind::kSigned, 24};
  for (int i = 0; i < 8 * 36; ++i)
    layer.weights.edit().push_back(static_cast<std::int16_t>(i % 2 == 0 ? i % 50 + 1 : -(i % 50)));
  layer.weights.edit()[0] = first_weight;
  layer.bias.assign(8, 5);
  layer.requantise.emplace();
  layer.requantise->multiplier = {1};
  layer.requantise->offset = {0};
  layer.requantise->shift = {7};
  layer.requantise->lowest = -128;
  layer.requantise->highest = 127;
  kernels::Block block;
  block.name = "conv.1";
  block.inputs = {0};
  block.outputs = {1};
  block.operation = layer;
  program.blocks.push_back(std::move(block));
  return program;
}

/// Returns convolution() with two groups and a window of `height` by `width`.
Program grouped(std::uint32_t height, std::uint32_t width) {
  Program program = convolution();
  auto& layer = std::get<Convolution>(program.blocks[0].operation);
  layer.groups = 2;
  layer.window.kernel_h = height;
  layer.window.kernel_w = width;
  layer.weights.edit().resize(std::size_t{8} * height * width * 2, 3);
  program.tensors[1].shape = {7 - height, 9 - width, 8};
  return program;
}

Folding parallel(std::uint32_t pe, std::uint32_t simd) {
  Folding folding;
  folding.pe = pe;
  folding.simd = simd;
  folding.window = WindowStyle::kParallel;
  return folding;
}

std::string refusal(const Program& program, const Folding& folding) {
  const auto generator = Generator::make(program, 0).value();
  const auto built = generator->build(folding, true);
  return built.ok() ? "" : built.error().message();
}

/// Returns a partition with all blocks of the model that run on a card.
Program card_part(const Program& whole) {
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t b = 0; b < whole.blocks.size(); ++b)
    if (!kernels::is_host_only(whole, whole.blocks[b])) blocks.push_back(b);
  return kernels::extract(whole, blocks, "part0");
}

std::vector<Folding> chosen(const Program& program, std::uint64_t target) {
  tests::FoldingOptions options;
  options.budget = {1000000, 1000000, 10000000, 10000, 10000, 0};
  options.target_interval = target;
  return tests::choose_foldings(catalog(), program, options).value();
}

TEST(Generators, NineBitWeightsUseOneDspSlicePerProduct) {
  Program program = convolution(-200);
  auto& layer = std::get<Convolution>(program.blocks[0].operation);
  layer.weight_type.bits = 9;
  Folding folding = parallel(8, 36);
  for (const Multiplier multiplier : {Multiplier::kSoft, Multiplier::kDsp}) {
    folding.multiplier = multiplier;
    EXPECT_EQ(refusal(program, folding), "");
  }
  folding.multiplier = Multiplier::kDspPair;
  EXPECT_NE(refusal(program, folding).find("signed weights of at most 8 bits"), std::string::npos);
  layer.weight_type.bits = 10;
  const auto wider = Generator::make(program, 0);
  ASSERT_FALSE(wider.ok());
  EXPECT_NE(wider.error().message().find("weights of 10 bits; hardware multiplies at most 8 bits by 9 bits"),
            std::string::npos)
      << wider.error().message();
}

TEST(Generators, RefusesAFoldingThatDoesNotDivideTheLayer) {
  const Program program = convolution();
  EXPECT_EQ(refusal(program, parallel(8, 36)), "");
  EXPECT_EQ(refusal(program, parallel(3, 36)),
            "block 'conv.1' (convolution): PE 3 does not divide 8 output channels; choose a divisor");
  EXPECT_NE(refusal(program, parallel(8, 5)).find("SIMD 5 does not divide 36"), std::string::npos);
  Folding folding = parallel(8, 36);
  folding.pixels = 3;
  EXPECT_NE(refusal(program, folding).find("3 pixels a cycle does not suit a width of 8"), std::string::npos);
  folding = parallel(8, 36);
  folding.window = WindowStyle::kFolded;
  folding.window_lanes = 3;
  EXPECT_NE(refusal(program, folding).find("3 window lanes do not divide 4 channels"), std::string::npos);
  folding.window = WindowStyle::kNone;
  EXPECT_NE(refusal(program, folding).find("sliding window"), std::string::npos);
  folding = parallel(0, 36);
  EXPECT_NE(refusal(program, folding).find("at least 1"), std::string::npos);
}

/// Returns convolution() with padding `pad` and dilation `apart`. Picture and result have `height` rows.
Program low(std::uint32_t height, std::uint32_t pad, std::uint32_t apart) {
  Program program = convolution();
  program.tensors[0].shape = {height, 8, 4};
  program.tensors[1].shape = {height, 8, 8};
  auto& window = std::get<Convolution>(program.blocks[0].operation).window;
  window.pad_top = window.pad_left = window.pad_bottom = window.pad_right = pad;
  window.dilation_h = window.dilation_w = apart;
  return program;
}

TEST(Generators, OffersParallelWindowsForInputsWithFewerRowsThanTheKernel) {
  Folding two = parallel(8, 36);
  two.pixels = 2;
  EXPECT_EQ(refusal(low(1, 1, 1), parallel(8, 36)), "");
  EXPECT_EQ(refusal(low(1, 1, 1), two), "");
  EXPECT_EQ(refusal(low(4, 4, 4), parallel(8, 36)), "");
  const auto offers = [](const Program& program) {
    const auto generator = Generator::make(program, 0).value();
    std::set<WindowStyle> styles;
    for (const std::uint64_t interval : generator->intervals())
      for (const Folding& folding : generator->foldings(interval)) styles.insert(folding.window);
    return styles;
  };
  const std::set both = {WindowStyle::kFolded, WindowStyle::kParallel};
  EXPECT_EQ(offers(low(1, 1, 1)), both);
  EXPECT_EQ(offers(low(4, 4, 4)), both);
  EXPECT_EQ(offers(low(2, 1, 1)), both);
}

TEST(Generators, RefusesPairedDspMultipliersForAWeightOfMinus128) {
  const Program program = convolution(-128);
  Folding folding = parallel(8, 36);
  folding.multiplier = Multiplier::kDspPair;
  EXPECT_NE(refusal(program, folding).find("a weight is -128"), std::string::npos);
  EXPECT_EQ(refusal(convolution(), folding), "");
  const auto offered = Generator::make(program, 0).value()->foldings(1000);
  ASSERT_FALSE(offered.empty());
  for (const auto& f : offered) EXPECT_NE(f.multiplier, Multiplier::kDspPair);
}

TEST(Generators, RefusesPoolingWithMorePartialResultsThanALutMemoryHolds) {
  Program program;
  program.tensors.push_back({"x", kInt8, {4, 128, 8}, {}, 0});
  program.tensors.push_back({"y", kInt8, {2, 64, 8}, {}, 0});
  program.inputs = {0};
  program.outputs = {1};
  kernels::MaxPool pool;
  pool.window.kernel_h = pool.window.kernel_w = pool.window.stride_h = pool.window.stride_w = 2;
  program.blocks.push_back({"pool", {}, {0}, {1}, pool});
  Folding folding;
  EXPECT_NE(refusal(program, folding).find("512 partial results, but a memory in LUTs holds at most 256"),
            std::string::npos);
  folding.simd = 2;
  EXPECT_EQ(refusal(program, folding), "");
  for (const auto& f : Generator::make(program, 0).value()->foldings(1000000)) EXPECT_GE(f.simd, 2U);
}

/// Returns a partition that is only a fully connected layer.
Program dense(std::uint32_t inputs, std::uint32_t outputs) {
  Program program = convolution();
  program.tensors[0].shape = {inputs};
  program.tensors[1].shape = {outputs};
  auto& layer = std::get<Convolution>(program.blocks[0].operation);
  layer.window = {};
  layer.out_channels = outputs;
  layer.weights.edit().assign(std::size_t{inputs} * outputs, 3);
  layer.bias.clear();
  return program;
}

Folding in_logic(std::uint32_t pe, std::uint32_t simd) {
  Folding folding;
  folding.pe = pe;
  folding.simd = simd;
  folding.memory = TableStyle::kLogic;
  return folding;
}

TEST(Generators, RefusesAWeightTableInLogicDeeperThan1024Lines) {
  Program program = dense(256, 8);
  EXPECT_EQ(refusal(program, in_logic(1, 1)),
            "block 'conv.1' (convolution): memory 'logic': a table in LUTs has at most 1024 lines, but this "
            "table needs 2048; choose memory 'block' or 'auto', or a larger PE or SIMD");
  EXPECT_EQ(refusal(program, in_logic(2, 1)), "");
  EXPECT_EQ(refusal(program, in_logic(1, 2)), "");
  const auto generator = Generator::make(program, 0).value();
  EXPECT_EQ(generator->candidate(catalog(), in_logic(1, 1)).error().code(), ErrorCode::kInvalidInput);
  for (const auto memory : {TableStyle::kAuto, TableStyle::kBlock}) {
    Folding folding = in_logic(1, 1);
    folding.memory = memory;
    const auto candidate = generator->candidate(catalog(), folding);
    ASSERT_TRUE(candidate.ok()) << candidate.error().message();
    EXPECT_GT(candidate->cost.ramb18, 0U);
  }
  // Loaded weights are stored in LUTRAM. Streamed weights are not stored in a table at all.
  Program large = dense(4096, 8);
  Folding folding = in_logic(1, 1);
  large.blocks[0].placement = folding.weights = kernels::Placement::kLoaded;
  EXPECT_NE(refusal(large, folding).find("this table needs 32768"), std::string::npos);
  large.blocks[0].placement = folding.weights = kernels::Placement::kStreamed;
  EXPECT_EQ(refusal(large, folding), "");

  Program depthwise = convolution();
  depthwise.tensors[0].shape = {6, 8, 128};
  depthwise.tensors[1].shape = {4, 6, 128};
  auto& layer = std::get<Convolution>(depthwise.blocks[0].operation);
  layer.groups = layer.out_channels = 128;
  layer.weights.edit().assign(std::size_t{128} * 9, 3);
  layer.bias.assign(128, 5);
  folding = in_logic(1, 1);
  folding.window = WindowStyle::kFolded;
  EXPECT_NE(refusal(depthwise, folding)
                .find("this table needs 1152; choose memory 'block' or 'auto', or a larger PE"),
            std::string::npos)
      << refusal(depthwise, folding);
  folding.pe = folding.window_lanes = 2;
  EXPECT_EQ(refusal(depthwise, folding), "");
}

TEST(Generators, RefusesAnAdditionTableInLogicDeeperThan1024Lines) {
  for (const unsigned bits : {5U, 6U}) {
    const ElementType type{ElementType::Kind::kSigned, static_cast<std::uint8_t>(bits)};
    Program program;
    program.name = "part0";
    for (const char* name : {"a", "b", "y"}) program.tensors.push_back({name, type, {16}, {}, 0});
    program.inputs = {0, 1};
    program.outputs = {2};
    kernels::Block block;
    block.name = "sum";
    block.inputs = {0, 1};
    block.outputs = {2};
    kernels::Add add;
    add.table.assign(std::size_t{1} << (2 * bits), 1);
    block.operation = add;
    program.blocks.push_back(std::move(block));
    EXPECT_EQ(refusal(program, in_logic(1, 4)),
              bits == 5 ? ""
                        : "block 'sum' (add): memory 'logic': a table in LUTs has at most 1024 lines, but "
                          "this table needs 4096; choose memory 'block' or 'auto'");
    Folding folding = in_logic(1, 4);
    folding.memory = TableStyle::kAuto;
    EXPECT_TRUE(Generator::make(program, 0).value()->candidate(catalog(), folding).ok());
  }
}

TEST(Generators, CountsTheLutsOfADeepTableImplementedInLogic) {
  Program program = dense(16, 1280);
  auto& step = *std::get<Convolution>(program.blocks[0].operation).requantise;
  step.multiplier.assign(1280, 1);
  step.offset.assign(1280, 0);
  step.shift.clear();
  for (int i = 0; i < 1280; ++i) step.shift.push_back(static_cast<std::uint8_t>(4 + i % 7));
  Folding folding;
  folding.simd = 16;  // PE is 1, so a table has a 4-bit shift for each of 1,280 channels
  const auto generator = Generator::make(program, 0).value();
  const auto candidate = generator->candidate(catalog(), folding);
  ASSERT_TRUE(candidate.ok()) << candidate.error().message();
  const auto units = generator->build(folding, false).value().units;
  const auto requant = std::find_if(units.begin(), units.end(),
                                    [](const auto& unit) { return unit.instance.module == "mr_requant"; });
  ASSERT_NE(requant, units.end());
  const Cost cost = generators::cost(catalog(), "mr_requant", requant->instance.parameters).value();
  EXPECT_EQ(cost.ramb18 + cost.ramb36, 0U);
  EXPECT_GT(cost.lut, 149U) << "what Yosys makes of 1,280 lines of 4 bits alone";
}

TEST(Generators, RefusesOperandsTooWideForHardware) {
  Program program = convolution();
  program.tensors[0].type = {ElementType::Kind::kSigned, 12};
  const auto made = Generator::make(program, 0);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(made.error().message().find("12 bits"), std::string::npos);
}

TEST(Generators, EveryOfferedFoldingCanBeBuiltAndMeetsTheRequestedInterval) {
  for (const Program& program : {convolution(), grouped(3, 3), grouped(1, 1), grouped(6, 8),
                                 card_part(tests::skip_program(3)), card_part(tests::chain_program(2))})
    for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
      const auto generator = Generator::make(program, b).value();
      for (const std::uint64_t interval : generator->intervals())
        for (const Folding& folding : generator->foldings(interval)) {
          const auto candidate = generator->candidate(catalog(), folding);
          ASSERT_TRUE(candidate.ok()) << candidate.error().message();
          EXPECT_LE(candidate->interval_cycles, interval)
              << program.blocks[b].name << " " << to_string(folding);
        }
    }
}

TEST(Generators, GroupedConvolutionsMultiplyOnlyChannelsOfTheirGroup) {
  Folding folding = parallel(2, 6);
  folding.window = WindowStyle::kFolded;
  folding.window_lanes = 4;
  const Program program = grouped(3, 3);
  const Netlist netlist = Generator::make(program, 0).value()->build(folding, true).value();
  std::int64_t products = 0;
  for (const auto& unit : netlist.units)
    if (unit.instance.module == "mr_mvu")
      products += parameter(unit.instance, "MH", 0) * parameter(unit.instance, "MW", 0);
  EXPECT_EQ(products * 24,
            static_cast<std::int64_t>(kernels::multiply_accumulates(program, program.blocks[0])));
  folding.window_lanes = 2;
  EXPECT_NE(refusal(program, folding)
                .find("a grouped convolution needs as many window lanes as input channels; choose 4"),
            std::string::npos);
  folding.window_lanes = 4;
  folding.simd = 36;
  EXPECT_NE(refusal(program, folding).find("does not divide 18"), std::string::npos);
}

TEST(Generators, CostOfADesignIsTheSumOverItsInstances) {
  const Program program = card_part(tests::skip_program(3));
  const Design design = assemble(catalog(), program, chosen(program, 200)).value();
  EXPECT_EQ(design.cost, netlist_cost(catalog(), design.netlist).value());
  Cost blocks;
  for (const auto& block : design.blocks) blocks += block.cost;
  Cost rest;
  for (const auto& unit : design.netlist.units)
    if (unit.block < 0) rest += cost(catalog(), unit.instance.module, unit.instance.parameters).value();
  EXPECT_EQ(design.cost, blocks + rest);
}

TEST(Generators, OnlyDesignsWithLoadedWeightsHaveAWeightLoader) {
  const Program baked = convolution();
  Folding folding = parallel(2, 18);
  const Design without = assemble(catalog(), baked, {folding}).value();
  EXPECT_EQ(without.loader, Cost{});
  const Cost most = largest_loader_cost(catalog()).value();
  for (const auto placement : {kernels::Placement::kLoaded, kernels::Placement::kStreamed}) {
    Program program = baked;
    program.blocks[0].placement = folding.weights = placement;
    const Design design = assemble(catalog(), program, {folding}).value();
    const auto words = static_cast<std::int64_t>(load_words(design.netlist));
    const auto hops = static_cast<std::int64_t>(design.netlist.loads.size());
    ASSERT_GT(hops, 0);
    EXPECT_EQ(design.loader, cost(catalog(), "mr_parameters",
                                  {{"DATA_BYTES", 64}, {"BURST", 16}, {"WORDS", words}, {"HOPS", hops}})
                                 .value());
    EXPECT_EQ(design.cost, netlist_cost(catalog(), design.netlist).value());
    EXPECT_GT(design.loader.lut, 1000U);
    // A plan reserves room for the largest possible loader, which costs at most 5 % more than the loader of this
    // design.
    EXPECT_LE(design.loader.lut, most.lut);
    EXPECT_LE(design.loader.ff, most.ff);
    EXPECT_EQ(design.loader.lutram, most.lutram);
    EXPECT_LT(static_cast<double>(most.lut), 1.05 * static_cast<double>(design.loader.lut));
  }
}

TEST(Generators, StreamBetweenRegionsPassesARegisterSliceInEachRegion) {
  const Program program = card_part(tests::skip_program(3));
  const auto foldings = chosen(program, 300);
  const Design one = assemble(catalog(), program, foldings).value();
  EXPECT_TRUE(one.regions.empty());
  AssembleOptions options;
  for (std::size_t b = 0; b < program.blocks.size(); ++b)
    options.regions.push_back(static_cast<std::uint32_t>(b * 3 / program.blocks.size()));
  ASSERT_EQ(options.regions.back(), 2U);
  const Design spread = assemble(catalog(), program, foldings, options).value();
  EXPECT_EQ(spread.interval_cycles, one.interval_cycles);
  EXPECT_GT(spread.latency_cycles, one.latency_cycles);
  EXPECT_LE(spread.latency_cycles, one.latency_cycles + 16);
  ASSERT_EQ(spread.regions.size(), spread.netlist.units.size());

  // A stream's writer and reader must be in the same region, or be register slices in neighbouring regions.
  const auto& units = spread.netlist.units;
  std::vector<std::pair<std::uint32_t, bool>> writer(spread.netlist.streams.size(), {0, false});
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const auto s : units[u].outputs)
      writer[s] = {spread.regions[u], units[u].instance.module == "mr_skid"};
  std::size_t crossings = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const auto s : units[u].inputs) {
      const auto [from, slice] = writer[s];
      const std::uint32_t to = spread.regions[u];
      if (from == to) continue;
      ++crossings;
      EXPECT_TRUE(slice && units[u].instance.module == "mr_skid") << spread.netlist.streams[s].name;
      EXPECT_EQ(std::max(from, to) - std::min(from, to), 1U) << spread.netlist.streams[s].name;
    }
  EXPECT_GE(crossings, 4U);  // two on the way to the last region, two on the way back
  for (const auto s : spread.netlist.outputs) EXPECT_EQ(writer[s].first, 0U);

  Cost sum;
  const auto costs = region_costs(catalog(), spread, 3).value();
  for (const auto& cost : costs) {
    EXPECT_GT(cost.ff, 0U);
    sum += cost;
  }
  EXPECT_EQ(sum, spread.cost);
  EXPECT_GT(spread.cost.ff, one.cost.ff);
}

TEST(Generators, InstanceNamesAreUniqueIdentifiersForAnyBlockNames) {
  Program program = card_part(tests::skip_program(3));
  program.blocks[0].name = "in0";
  program.blocks[1].name = "a-b";
  program.blocks[2].name = "a.b";
  program.blocks[3].name = "0_x";
  const Design design = assemble(catalog(), program, chosen(program, 1000)).value();
  std::set<std::string> streams, units, files;
  for (const auto& stream : design.netlist.streams)
    EXPECT_TRUE(streams.insert(stream.name).second) << stream.name;
  for (const auto& unit : design.netlist.units) {
    EXPECT_TRUE(units.insert(unit.instance.name).second) << unit.instance.name;
    EXPECT_FALSE(unit.instance.name.front() >= '0' && unit.instance.name.front() <= '9');
    EXPECT_EQ(unit.instance.name.find_first_of("-."), std::string::npos);
  }
  for (const auto& file : design.netlist.files) EXPECT_TRUE(files.insert(file.name).second) << file.name;
  for (const auto& unit : design.netlist.units)
    for (const auto& [parameter_name, file] : unit.files)
      EXPECT_TRUE(parameter_name != "WFILE" || files.contains(file)) << file;
}

TEST(Generators, EveryStreamHasOneWriterAndOneReader) {
  const Program program = card_part(tests::skip_program(4));
  const Netlist netlist = assemble(catalog(), program, chosen(program, 300)).value().netlist;
  std::vector<int> written(netlist.streams.size()), read(netlist.streams.size());
  for (const auto s : netlist.inputs) ++written[s];
  for (const auto s : netlist.outputs) ++read[s];
  for (const auto& unit : netlist.units) {
    for (const auto s : unit.inputs) {
      EXPECT_EQ(written[s], 1) << netlist.streams[s].name << " is read before it is written";
      ++read[s];
    }
    for (const auto s : unit.outputs) ++written[s];
  }
  for (std::size_t s = 0; s < netlist.streams.size(); ++s) {
    EXPECT_EQ(written[s], 1) << netlist.streams[s].name;
    EXPECT_EQ(read[s], 1) << netlist.streams[s].name;
  }
}

TEST(Timing, ConvolutionThatComputesAWindowPerCycleKeepsUpWithItsInput) {
  const Program program = convolution();
  const Design design = assemble(catalog(), program, {parallel(8, 36)}).value();
  EXPECT_EQ(design.interval_cycles, 48U);
  // The latency is the sum of the delays of two rows and three pixels of input, the FIFOs at both ends, the window, the
  // multiplying unit with six levels, and the requantisation.
  EXPECT_EQ(design.first_output_cycles, 2U + 2 * 8 + 2 + 2 + (1 + 2 + 6) + 2 + 2);
}

TEST(Timing, AFoldedMatrixUnitLimitsTheIntervalOfTheDesign) {
  const Program program = convolution();
  const Design design = assemble(catalog(), program, {parallel(2, 9)}).value();
  EXPECT_GE(design.interval_cycles, 24U * 4 * 4);
  EXPECT_LE(design.interval_cycles, 24U * 4 * 4 * 102 / 100 + 2);
}

/// A program that only rearranges a tensor of 8-bit elements.
Program rearranging(kernels::Rearrange r, std::vector<std::uint32_t> from, std::vector<std::uint32_t> to) {
  Program program;
  program.name = "part0";
  const kernels::ElementType int8{kernels::ElementType::Kind::kSigned, 8};
  program.tensors = {{"x", int8, std::move(from), {}, 0}, {"y", int8, std::move(to), {}, 0}};
  program.inputs = {0};
  program.outputs = {1};
  program.blocks.push_back({"turn", {}, {0}, {1}, std::move(r)});
  EXPECT_EQ(kernels::validate(program), "");
  return program;
}

TEST(Generator, RearrangementMovesAdjacentElementsTogetherWithTheSmallestBuffer) {
  const auto widest = [](const Program& program) {
    const auto made = Generator::make(program, 0).value();
    const auto folding = made->foldings(made->intervals().front()).front();
    return made->build(folding, false).value().units.front().instance.parameters;
  };
  const auto value = [](const Parameters& parameters, const char* name) {
    for (const auto& [key, number] : parameters)
      if (key == name) return number;
    return std::int64_t{-1};
  };
  // A transposition of rows and columns moves the two channels of a pixel together, and its buffer must hold the whole
  // frame.
  auto parameters = widest(rearranging(kernels::transposition({4, 6, 2}, {1, 0, 2}), {4, 6, 2}, {6, 4, 2}));
  EXPECT_EQ(value(parameters, "WIDTH"), 16);
  EXPECT_EQ(value(parameters, "WORDS"), 24);
  // The buffer for a channel shuffle must hold one pixel. The buffer for repeating columns must hold one row.
  parameters = widest(rearranging({0, {15, 4, 2}, {8, 1, 4}}, {3, 5, 8}, {3, 5, 8}));
  EXPECT_EQ(value(parameters, "WIDTH"), 8);
  EXPECT_EQ(value(parameters, "WORDS"), 8);
  parameters = widest(rearranging({0, {3, 2, 4, 2, 6}, {24, 0, 6, 0, 1}}, {3, 4, 6}, {6, 8, 6}));
  EXPECT_EQ(value(parameters, "WIDTH"), 48);
  EXPECT_EQ(value(parameters, "WORDS"), 4);
}

TEST(Generator, RefusesARearrangementOfMoreNestedLoopsThanItsModuleHas) {
  const Program program =
      rearranging({0, {2, 2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32, 64}}, {8, 8, 2}, {8, 8, 2});
  const auto made = Generator::make(program, 0);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), ErrorCode::kUnsupported);
  for (const char* part :
       {"'turn'", "more than 6 nested loops", "take a Transpose or Reshape out of the model"})
    EXPECT_NE(made.error().message().find(part), std::string::npos) << made.error().message();
}

TEST(Timing, StreamedWeightsAreReadInWholeWords) {
  const auto interval = [&](std::uint32_t outputs, std::uint32_t pe, std::uint32_t simd) {
    Program program;
    program.name = "part0";
    const kernels::ElementType int8{kernels::ElementType::Kind::kSigned, 8};
    program.tensors = {{"x", int8, {1, 1, 72}, {}, 0}, {"y", int8, {1, 1, outputs}, {}, 0}};
    program.inputs = {0};
    program.outputs = {1};
    kernels::Convolution dense;
    dense.out_channels = outputs;
    dense.weight_type = int8;
    dense.accumulator = {kernels::ElementType::Kind::kSigned, 24};
    dense.weights.edit().resize(std::size_t{72} * outputs, 1);
    dense.requantise = kernels::Requantise{};
    dense.requantise->multiplier = {3};
    dense.requantise->offset = {0};
    dense.requantise->shift = {4};
    dense.requantise->lowest = -128;
    dense.requantise->highest = 127;
    program.blocks.push_back({"dense", {}, {0}, {1}, dense});
    program.blocks[0].placement = kernels::Placement::kStreamed;
    Folding folding;
    folding.pe = pe;
    folding.simd = simd;
    folding.weights = kernels::Placement::kStreamed;
    AssembleOptions options;
    options.memories = false;
    return assemble(catalog(), program, {folding}, options).value().interval_cycles;
  };
  EXPECT_EQ(interval(57, 1, 4), 1040U) << "1,026 lines of 4 bytes are read as 65 words of 16";
  EXPECT_EQ(interval(57, 19, 72), 3U * 22) << "a line of 1,368 bytes is 22 words";
  EXPECT_EQ(interval(10, 1, 4), 180U) << "720 bytes are loaded";
}

TEST(Timing, FifoDepthsKeepTheIntervalAndATooSmallFifoIsReported) {
  const Program program = card_part(tests::skip_program(4));
  Design design = assemble(catalog(), program, chosen(program, 300)).value();
  TimingOptions unlimited;
  unlimited.unlimited_fifos = true;
  EXPECT_EQ(simulate(design.netlist, unlimited).value().interval_cycles, design.interval_cycles);
  const Timing played = simulate(design.netlist).value();
  EXPECT_EQ(played.interval_cycles, design.interval_cycles);
  for (const auto& fifo : design.fifos) {
    EXPECT_EQ(played.high_water[fifo.unit], fifo.high_water);
    EXPECT_LE(fifo.high_water, fifo.depth + 1);
    EXPECT_LE(fifo.depth, std::max<std::uint64_t>(2, 2 * fifo.high_water));
  }
  const auto deepest = std::max_element(design.fifos.begin(), design.fifos.end(),
                                        [](const auto& a, const auto& b) { return a.depth < b.depth; });
  ASSERT_GT(deepest->depth, 8U) << "the branch that skips the layers waits somewhere";
  for (auto& [name, value] : design.netlist.units[deepest->unit].instance.parameters)
    if (name == "DEPTH") value = 2;
  const auto stuck = simulate(design.netlist);
  ASSERT_FALSE(stuck.ok());
  EXPECT_NE(stuck.error().message().find("deadlocks"), std::string::npos) << stuck.error().message();
}

TEST(Timing, HalvingAnyFifoSlowsTheDesignDown) {
  for (const std::uint64_t interval : {60U, 120U, 300U, 900U}) {
    const Program program = card_part(tests::skip_program(4));
    const Design design = assemble(catalog(), program, chosen(program, interval)).value();
    for (const auto& fifo : design.fifos) {
      if (fifo.depth <= 4) continue;
      SCOPED_TRACE(design.netlist.units[fifo.unit].instance.name + ", depth " + std::to_string(fifo.depth) +
                   ", interval " + std::to_string(interval));
      Netlist shallower = design.netlist;
      for (auto& [name, value] : shallower.units[fifo.unit].instance.parameters)
        if (name == "DEPTH") value = static_cast<std::int64_t>(fifo.depth / 2);
      const auto played = simulate(shallower);
      if (!played.ok()) continue;  // the dataflow deadlocks
      EXPECT_TRUE(played->interval_cycles > design.interval_cycles ||
                  played->latency_cycles > design.latency_cycles);
    }
  }
}

TEST(FirstFrame, NextCardStartsWhenTheFirstPacketArrives) {
  const Design a = assemble(catalog(), convolution(), {parallel(2, 9)}).value();
  Design b = a;
  b.inputs[0].tensor = "y";  // the output of `a` has the same 192 bytes
  b.outputs[0].tensor = "z";
  const double clock = 1e8;
  const auto cycles = [&](double seconds) { return std::llround(seconds * clock); };
  const auto alone = static_cast<long long>(a.latency_cycles);
  const std::vector<Stage> stages = {{&a, clock, 0, {}, {}, 0}, {&b, clock, 1, {}, {}, 0}};
  // Between the cards, a packet needs one cycle to start, 232 / 2 cycles for 192 bytes with header and CRC, and 50
  // cycles in the cable.
  const auto far = play_first_frame(stages, {{{0, 1}, {2 * clock, 50 / clock}}});
  ASSERT_TRUE(far.ok()) << far.error().message();
  EXPECT_EQ(cycles((*far)[0].last_output), alone);
  EXPECT_EQ(cycles((*far)[1].last_output), alone + 1 + 232 / 2 + 50 + alone);
  EXPECT_LT((*far)[1].first_output, (*far)[1].last_output);
  // Now both partitions are on one card. The tensor goes from one to the other through the host, which needs no time.
  const auto near =
      play_first_frame({stages[0], {nullptr, 0, 0, {"y"}, {"y"}, 0}, {&b, clock, 0, {}, {}, 0}}, {});
  ASSERT_TRUE(near.ok()) << near.error().message();
  EXPECT_EQ(cycles((*near)[2].last_output), 2 * alone);
  // Here the host needs 300 cycles.
  const auto slow = play_first_frame(
      {stages[0], {nullptr, 0, 0, {"y"}, {"y"}, 300 / clock}, {&b, clock, 0, {}, {}, 0}}, {});
  ASSERT_TRUE(slow.ok()) << slow.error().message();
  EXPECT_EQ(cycles((*slow)[2].last_output), 2 * alone + 300);
  EXPECT_NE(play_first_frame(stages, {}).error().message().find("no cable joins"), std::string::npos);
}

TEST(ChooseFoldings, SlowerTargetUsesFewerDspSlices) {
  const Program program = card_part(tests::chain_program(3));
  const Design slow = assemble(catalog(), program, chosen(program, 5000)).value();
  const Design fast = assemble(catalog(), program, chosen(program, 100)).value();
  EXPECT_LE(slow.interval_cycles, 5000U * 102 / 100);
  EXPECT_LT(fast.interval_cycles, slow.interval_cycles);
  EXPECT_LE(slow.cost.dsp, fast.cost.dsp);
}

TEST(ChooseFoldings, NamesTheScarceResourceIfNoFoldingFits) {
  const Program program = card_part(tests::chain_program(3));
  tests::FoldingOptions options;
  options.budget = {100, 100000, 10000000, 1000, 1000, 0};
  const auto chosen_foldings = tests::choose_foldings(catalog(), program, options);
  ASSERT_FALSE(chosen_foldings.ok());
  EXPECT_EQ(chosen_foldings.error().code(), ErrorCode::kDoesNotFit);
  EXPECT_NE(chosen_foldings.error().message().find("LUTs more than the 100 there are"), std::string::npos)
      << chosen_foldings.error().message();
}

}  // namespace
}  // namespace millrace::compiler::generators::test_generators
