// Tests validate() and extract(). This source has more than 500 lines because every rule of validate() has a test.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/program/program.hpp"
#include "kernels/program/rearrange.hpp"
#include "random_program.hpp"
#include "small_program.hpp"

namespace millrace::tests::test_program {
namespace {

using namespace kernels;
using Kind = ElementType::Kind;

// The following functions make a valid program. Each test below breaks one property of the program.
Convolution good_convolution() {
  Convolution c;
  c.window.kernel_h = c.window.kernel_w = 3;
  c.window.pad_top = c.window.pad_left = c.window.pad_bottom = c.window.pad_right = 1;
  c.out_channels = 2;
  c.weight_type = kInt8;
  c.weights.edit().assign(2 * 3 * 3 * 4, 1);
  c.bias = {5, -5};
  c.accumulator = {Kind::kSigned, 14};
  c.requantise = shift_right(4);
  return c;
}

Program good(Convolution c = good_convolution()) {
  return one_block(std::move(c), {{kInt8, {6, 5, 4}}}, {kInt8, {6, 5, 2}});
}

template <class Break>
std::string broken(Break break_it) {
  Program program = good();
  break_it(program, std::get<Convolution>(program.blocks[0].operation));
  return validate(program);
}

#define EXPECT_REFUSED(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "message: " << (message)

TEST(ElementTypes, ReportTheirRangeStorageAndName) {
  EXPECT_EQ(kInt8.lowest(), -128);
  EXPECT_EQ(kInt8.highest(), 127);
  EXPECT_EQ((ElementType{Kind::kUnsigned, 4}.highest()), 15);
  EXPECT_EQ((ElementType{Kind::kUnsigned, 32}.highest()), 4294967295);
  EXPECT_EQ((ElementType{Kind::kSigned, 1}.lowest()), -1);
  EXPECT_EQ((ElementType{Kind::kSigned, 1}.highest()), 0);
  EXPECT_EQ(kInt32.lowest(), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(kBipolar.lowest(), -1);
  EXPECT_EQ((ElementType{Kind::kSigned, 9}.storage_bytes()), 2U);
  EXPECT_EQ((ElementType{Kind::kUnsigned, 17}.storage_bytes()), 4U);
  EXPECT_EQ(to_string(ElementType{Kind::kUnsigned, 4}), "uint4");
  EXPECT_EQ(to_string(kBipolar), "bipolar");
  EXPECT_EQ(to_string(kFloat), "float32");
}

TEST(Window, OutputHeightCountsThePositionsThatFit) {
  Window w;
  w.kernel_h = 5;
  EXPECT_EQ(windowed_height(w, 28), 24U);
  w.pad_top = w.pad_bottom = 2;
  EXPECT_EQ(windowed_height(w, 28), 28U);
  w.stride_h = 2;
  EXPECT_EQ(windowed_height(w, 28), 14U);
  w.dilation_h = 8;
  EXPECT_EQ(windowed_height(w, 28), 0U);
  w.kernel_h = w.dilation_h = 0xffffffff;
  EXPECT_EQ(windowed_height(w, 0xffffffff), 0U);
}

TEST(Program, MultiplicationsOfAConvolutionAreCounted) {
  const Program program = good();
  EXPECT_EQ(multiply_accumulates(program, program.blocks[0]), 6U * 5U * 2U * 36U);
}

TEST(Validate, AcceptsAValidProgram) {
  EXPECT_EQ(validate(good()), "");
}

TEST(Validate, AcceptsEveryRandomProgram) {
  for (const std::uint64_t seed : seeds(500)) {
    Chance chance(seed);
    EXPECT_EQ(validate(random_program(chance, 6)), "") << "seed " << seed;
  }
}

TEST(Validate, ErrorNamesTheProgramTheBlockAndTheField) {
  const std::string message = broken([](Program&, Convolution& c) { c.bias.pop_back(); });
  EXPECT_EQ(message, "program 'small': block 'block' (convolution): bias has 1 entries; give none or 2");
}

TEST(Validate, RefusesBadTensors) {
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[1].name = p.tensors[0].name; }), "is taken");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].name.clear(); }), "name is empty");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].type.bits = 0; }), "type is not");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].type.bits = 33; }), "type is not");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].type.kind = static_cast<Kind>(9); }),
                 "type is not");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].shape.clear(); }), "1 to 8 axes");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].shape.assign(9, 1); }), "1 to 8 axes");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].shape[1] = 0; }), "length 0");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].shape.assign(3, 0xffffffff); }),
                 "more than");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].shape.assign(8, 0xffffffff); }),
                 "more than");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].scale.assign(3, 1); }),
                 "scale has 3 entries");
  EXPECT_REFUSED(
      broken([](Program& p, Convolution&) { p.tensors[0].scale = {std::numeric_limits<float>::infinity()}; }),
      "not finite");
}

TEST(Validate, RefusesMissingUnknownAndDuplicateTensors) {
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.inputs.clear(); }), "inputs: none");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.outputs.clear(); }), "outputs: none");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.inputs = {7}; }), "tensor 7 does not exist");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.outputs = {7}; }), "tensor 7 does not exist");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.blocks[0].inputs = {4000000000U}; }),
                 "does not exist");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.inputs = {0, 0}; }), "two producers");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.inputs = {0, 1}; }), "two producers");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.outputs = {1, 1}; }), "named twice");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.blocks[0].inputs = {1}; }),
                 "before anything produces it");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.blocks[0].inputs = {0, 0}; }), "2 given, 1 needed");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.blocks[0].outputs.clear(); }), "0 given, 1 needed");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) {
                   p.tensors.push_back({"lost", kInt8, {1}, {}, 0});
                 }),
                 "neither an input nor produced");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) {
                   p.tensors.push_back({"again", kInt8, {6, 5, 2}, {}, 0});
                   p.blocks.push_back(p.blocks[0]);
                   p.blocks[1].outputs = {2};
                 }),
                 "name 'block' is taken");
}

TEST(Validate, RefusesBlocksOutOfOrder) {
  Program program = good();
  program.tensors.push_back({"after", kInt8, {6, 5, 2}, {}, 0});
  program.blocks.insert(program.blocks.begin(), Block{"early", {}, {1}, {2}, Rearrange{}});
  EXPECT_REFUSED(validate(program), "'out' is read before anything produces it");
}

TEST(Validate, RefusesBlockNamesThatAreNotFileNames) {
  for (const std::string name : {"", ".", "..", "a/b", "../x", "-rf", "a b", "a\nb", "ü", "a:b"}) {
    EXPECT_REFUSED(broken([&](Program& p, Convolution&) { p.blocks[0].name = name; }), "is not a file name");
  }
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.blocks[0].name.assign(129, 'a'); }),
                 "is not a file name");
  EXPECT_EQ(broken([](Program& p, Convolution&) { p.blocks[0].name = "conv_1.relu-2"; }), "");
}

TEST(Validate, MessagesAreOneShortLine) {
  const std::string message = broken([](Program& p, Convolution&) {
    p.name = "line\nline\x1b[31m";
    p.tensors[0].name.assign(100000, 'x');
    p.tensors[0].shape = {0};
  });
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 700U);
}

TEST(Validate, RefusesBadConvolutionWindows) {
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.stride_h = 0; }), "at least 1");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.kernel_w = 0; }), "at least 1");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.dilation_w = 0; }), "at least 1");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.pad_top = 65536; }), "above 65535");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.dilation_h = 9; }), "does not fit");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.stride_h = 2; }),
                 "but the window gives 3 x 5");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.window.pad_value = 128; }), "pad_value 128");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) {
                   p.tensors[0].shape = {30, 4};
                 }),
                 "[height, width, channels]");
}

TEST(Validate, RefusesBadConvolutions) {
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.out_channels = 0; }), "out_channels is 0");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.out_channels = 3; }), "out_channels is 3");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.groups = 0; }), "groups (0)");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.groups = 3; }), "groups (3)");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.weights.edit().pop_back(); }),
                 "weights has 71 entries; 2 x 3 x 3 x 4");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.weights.edit().clear(); }), "weights has 0 entries");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.weight_type.bits = 1; }),
                 "weights[0] = 1 is not a value of int1");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.weight_type.bits = 17; }), "1 to 16 bits");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.weight_type = kFloat; }), "1 to 16 bits");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) {
                   c.weight_type = kBipolar;
                   c.weights.edit()[4] = 0;
                 }),
                 "weights[4] = 0 is not a value of bipolar");
  EXPECT_REFUSED(broken([](Program& p, Convolution&) { p.tensors[0].type = kFloat; }),
                 "must be an integer tensor");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.requantise.reset(); }),
                 "must have the accumulator's type");
}

TEST(Validate, RefusesAnAccumulatorThatIsTooNarrow) {
  // Partial sums of 36 elements in -128 .. 127 and a bias of 5 or -5 lie within -4613 .. 4577. This needs 14 bits.
  EXPECT_EQ(broken([](Program&, Convolution& c) { c.accumulator.bits = 14; }), "");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.accumulator.bits = 13; }),
                 "accumulator int13 is too narrow for output channel 0");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.accumulator = kUint8; }),
                 "must be a signed integer");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.bias[1] = -8192; }), "for output channel 1");
  EXPECT_REFUSED(broken([](Program& p, Convolution& c) {
                   p.tensors[0].type = {Kind::kSigned, 32};
                   c.accumulator.bits = 32;
                   c.window.pad_value = 0;
                 }),
                 "too narrow");
}

TEST(Validate, AccumulatorWidthCoversPartialSumsInAnyOrder) {
  // The whole sum is x * 100 - x * 100 = 0, but a partial sum can reach 100 * 127.
  Program program = good();
  auto& c = std::get<Convolution>(program.blocks[0].operation);
  c.bias.clear();
  c.weights.edit().assign(72, 0);
  c.weights.edit()[0] = 100;
  c.weights.edit()[1] = -100;
  c.accumulator.bits = 15;
  EXPECT_REFUSED(validate(program), "too narrow");
  c.accumulator.bits = 16;
  EXPECT_EQ(validate(program), "");
}

TEST(Validate, RefusesRequantisationThatOverflowsOrDecreases) {
  const auto with = [](auto change) {
    return broken([&](Program&, Convolution& c) { change(*c.requantise); });
  };
  EXPECT_REFUSED(with([](Requantise& r) { r.offset = {std::numeric_limits<std::int64_t>::max()}; }),
                 "overflows 64 bits in channel 0");
  EXPECT_REFUSED(with([](Requantise& r) {
                   r.offset = {0, std::numeric_limits<std::int64_t>::min()};
                 }),
                 "overflows 64 bits in channel 1");
  EXPECT_EQ(with([](Requantise& r) { r.offset = {std::numeric_limits<std::int64_t>::max() - 8191}; }), "");
  EXPECT_REFUSED(with([](Requantise& r) { r.offset = {std::numeric_limits<std::int64_t>::max() - 8190}; }),
                 "overflows");
  EXPECT_REFUSED(with([](Requantise& r) { r.multiplier = {-1}; }), "negative");
  EXPECT_REFUSED(with([](Requantise& r) { r.shift = {63}; }), "above 62");
  EXPECT_REFUSED(with([](Requantise& r) { r.shift = {1, 1, 1}; }), "requantise.shift has 3 entries");
  EXPECT_REFUSED(with([](Requantise& r) { r.multiplier.clear(); }), "requantise.multiplier has 0 entries");
  EXPECT_REFUSED(with([](Requantise& r) { r.lowest = 128; }), "lowest is above");
  EXPECT_REFUSED(with([](Requantise& r) { r.highest = 128; }), "leaves the range of int8");
  EXPECT_REFUSED(with([](Requantise& r) { r.thresholds = {1}; }), "form is multiply-shift");
  EXPECT_REFUSED(with([](Requantise& r) { r.form = static_cast<Requantise::Form>(5); }), "form is unknown");
}

TEST(Validate, RefusesBadMultiplyShiftsThatRoundHalfToEven) {
  const auto with = [](auto change) {
    return broken([&](Program&, Convolution& c) {
      c.requantise->form = Requantise::Form::kMultiplyShiftHalfEven;
      change(*c.requantise);
    });
  };
  EXPECT_EQ(with([](Requantise&) {}), "");
  EXPECT_EQ(with([](Requantise& r) { r.zero_point = -128; }), "");
  EXPECT_REFUSED(with([](Requantise& r) { r.zero_point = 128; }),
                 "zero_point (128) leaves the range of int8");
  EXPECT_REFUSED(with([](Requantise& r) { r.multiplier = {-1}; }), "negative");
  EXPECT_REFUSED(with([](Requantise& r) { r.shift = {63}; }), "above 62");
  EXPECT_REFUSED(with([](Requantise& r) { r.thresholds = {1}; }), "form is multiply-shift");
  const std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(with([&](Requantise& r) { r.offset = {highest - (std::int64_t{1} << 62)}, r.shift = {62}; }), "");
  EXPECT_REFUSED(with([&](Requantise& r) { r.offset = {highest - (std::int64_t{1} << 60)}, r.shift = {62}; }),
                 "overflows 64 bits");
  EXPECT_REFUSED(with([&](Requantise& r) { r.offset = {-highest}, r.shift = {0}; }), "overflows 64 bits");
  EXPECT_REFUSED(broken([](Program&, Convolution& c) { c.requantise->zero_point = 1; }),
                 "zero_point is given");
}

TEST(Validate, RefusesBadThresholds) {
  const auto with = [](auto change) {
    return broken([&](Program&, Convolution& c) {
      Requantise& r = *c.requantise;
      r = {};
      r.form = Requantise::Form::kThresholds;
      r.lowest = -1;
      r.highest = 2;
      r.thresholds = {-5, 0, 0};
      change(r);
    });
  };
  EXPECT_EQ(with([](Requantise&) {}), "");
  EXPECT_EQ(with([](Requantise& r) { r.thresholds = {-5, 0, 0, 1, 2, 3}; }), "");
  EXPECT_REFUSED(with([](Requantise& r) { r.thresholds = {-5, 0, -1}; }), "thresholds[2] is below");
  EXPECT_REFUSED(with([](Requantise& r) { r.thresholds = {-5, 0}; }), "thresholds has 2 entries");
  EXPECT_REFUSED(with([](Requantise& r) { r.thresholds.assign(9, 0); }), "thresholds has 9 entries");
  EXPECT_REFUSED(with([](Requantise& r) { r.multiplier = {1}; }), "form is thresholds");
  EXPECT_REFUSED(with([](Requantise& r) {
                   r.lowest = std::numeric_limits<std::int32_t>::min();
                   r.highest = std::numeric_limits<std::int32_t>::max();
                 }),
                 "leaves the range");
}

TEST(Validate, RefusesZeroInABipolarOutput) {
  Convolution c = good_convolution();
  c.requantise = Requantise{};
  c.requantise->form = Requantise::Form::kThresholds;
  c.requantise->lowest = -1;
  c.requantise->highest = 1;
  c.requantise->thresholds = {3, 3};
  Program program = one_block(c, {{kInt8, {6, 5, 4}}}, {kBipolar, {6, 5, 2}});
  EXPECT_EQ(validate(program), "");
  std::get<Convolution>(program.blocks[0].operation).requantise->thresholds = {3, 4};
  EXPECT_REFUSED(validate(program), "so a bipolar tensor would contain 0");
  std::get<Convolution>(program.blocks[0].operation).requantise = shift_right(1, -1, 1);
  EXPECT_REFUSED(validate(program), "must be thresholds for a bipolar output");
}

TEST(Validate, RequiresAnElementInEveryMaxPoolWindow) {
  const auto pool = [](std::uint32_t extent, std::uint32_t kernel, std::uint32_t pad,
                       std::uint32_t dilation) {
    MaxPool p;
    p.window.kernel_h = kernel;
    p.window.dilation_h = dilation;
    p.window.pad_top = p.window.pad_bottom = pad;
    const std::uint32_t out = windowed_height(p.window, extent);
    return validate(one_block(p, {{kInt8, {extent, 1, 1}}}, {kInt8, {out, 1, 1}}));
  };
  EXPECT_EQ(pool(4, 3, 2, 1), "");
  EXPECT_REFUSED(pool(4, 3, 3, 1), "entirely in the padding");
  EXPECT_EQ(pool(3, 2, 3, 3), "");
  EXPECT_REFUSED(pool(2, 2, 2, 3), "entirely in the padding") << "taps step over the input";
}

TEST(Validate, RefusesBadPoolsTablesConcatenationsAndQuantisers) {
  EXPECT_REFUSED(validate(one_block(MaxPool{}, {{kInt8, {2, 2, 1}}}, {kUint8, {2, 2, 1}})), "same type");
  EXPECT_REFUSED(validate(one_block(MaxPool{}, {{kInt8, {2, 2, 1}}}, {kInt8, {2, 2, 2}})),
                 "same number of channels");
  EXPECT_REFUSED(validate(one_block(Lookup{std::vector<std::int16_t>(255, 0)}, {{kInt8, {4}}}, {kInt8, {4}})),
                 "table has 255 entries; 256");
  EXPECT_REFUSED(
      validate(one_block(Lookup{std::vector<std::int16_t>(256, 128)}, {{kInt8, {4}}}, {kInt8, {4}})),
      "table[0] = 128");
  EXPECT_REFUSED(validate(one_block(Lookup{}, {{kInt16, {4}}}, {kInt8, {4}})), "at most 8 bits");
  EXPECT_REFUSED(validate(one_block(Lookup{{1, 1}}, {{kBipolar, {4}}}, {kInt8, {4}})), "at most 8 bits");
  EXPECT_REFUSED(validate(one_block(Rescale{shift_right(1)}, {{kInt8, {4}}}, {kInt8, {2, 2}})), "same shape");
  EXPECT_REFUSED(validate(one_block(Concat{}, {{kInt8, {2, 3}}, {kInt8, {2, 4}}}, {kInt8, {2, 8}})),
                 "its inputs have 7");
  EXPECT_REFUSED(validate(one_block(Concat{}, {{kInt8, {2, 3}}, {kUint8, {2, 4}}}, {kInt8, {2, 7}})),
                 "same type");
  EXPECT_REFUSED(validate(one_block(Concat{}, {{kInt8, {2, 3}}, {kInt8, {3, 4}}}, {kInt8, {2, 7}})),
                 "leading dimensions");
  const auto rearranged = [](Rearrange r, std::uint32_t from, std::uint32_t to) {
    return validate(one_block(std::move(r), {{kInt8, {from}}}, {kInt8, {to}}));
  };
  EXPECT_REFUSED(rearranged({}, 6, 7), "as many elements");
  EXPECT_REFUSED(rearranged({1, {}, {}}, 6, 6), "offset is given");
  EXPECT_REFUSED(rearranged({0, {2, 3}, {1}}, 6, 6), "same length");
  EXPECT_REFUSED(rearranged({0, {1, 1, 1, 1, 1, 1, 1, 1, 6}, {0, 0, 0, 0, 0, 0, 0, 0, 1}}, 6, 6),
                 "at most 8 loops");
  EXPECT_REFUSED(rearranged({0, {0, 6}, {1, 1}}, 6, 6), "extents[0] is 0");
  EXPECT_REFUSED(rearranged({0, {2, 4}, {4, 1}}, 8, 6), "more than the 6 elements");
  EXPECT_REFUSED(rearranged({0, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {1, 1, 1, 1}}, 6, 6),
                 "more than the 6 elements");
  EXPECT_REFUSED(rearranged({0, {2, 2}, {2, 1}}, 6, 6), "do not multiply to the 6 elements");
  EXPECT_REFUSED(rearranged({0, {2, 3}, {4, 1}}, 6, 6), "leave the 6 elements");
  EXPECT_REFUSED(rearranged({2, {2, 3}, {3, -1}}, 5, 6), "leave the 5 elements");
  EXPECT_REFUSED(rearranged({1, {2, 3}, {3, -1}}, 6, 6), "leave the 6 elements");
  EXPECT_REFUSED(rearranged({0, {2}, {INT64_MAX}}, 6, 2), "leave the 6 elements");
  EXPECT_REFUSED(rearranged({UINT64_MAX, {2}, {1}}, 6, 2), "leave the 6 elements");
  EXPECT_EQ(rearranged({2, {2, 3}, {3, -1}}, 6, 6), "");
  EXPECT_EQ(rearranged({0, {2, 6}, {0, 1}}, 6, 12), "") << "elements may be repeated";
  EXPECT_EQ(rearranged({4, {2}, {1}}, 6, 2), "") << "elements may be left out";
  EXPECT_REFUSED(validate(one_block(Quantise{{0.0F}, 0}, {{kFloat, {4}}}, {kInt8, {4}})), "above 0");
  EXPECT_REFUSED(validate(one_block(Quantise{{std::numeric_limits<float>::quiet_NaN()}, 0}, {{kFloat, {4}}},
                                    {kInt8, {4}})),
                 "above 0");
  EXPECT_REFUSED(validate(one_block(Quantise{{1.0F}, 200}, {{kFloat, {4}}}, {kInt8, {4}})), "zero_point 200");
  EXPECT_REFUSED(validate(one_block(Quantise{{1.0F}, 0}, {{kInt8, {4}}}, {kInt8, {4}})),
                 "must be a float32 tensor");
  constexpr ElementType kInt17{ElementType::Kind::kSigned, 17}, kInt64{ElementType::Kind::kSigned, 64};
  EXPECT_REFUSED(validate(one_block(Quantise{{1.0F}, 0}, {{kFloat, {4}}}, {kInt17, {4}})), "at most 16 bits");
  EXPECT_EQ(validate(one_block(Quantise{{1.0F}, 0}, {{kFloat, {4}}}, {kInt32, {4}})), "");
  EXPECT_EQ(validate(one_block(Quantise{{1.0F}, 0}, {{kFloat, {4}}}, {kInt64, {4}})), "");
  EXPECT_EQ(validate(one_block(Dequantise{{1.0F}, 0}, {{kInt64, {4}}}, {kFloat, {4}})), "");
  EXPECT_REFUSED(validate(one_block(Dequantise{{1.0F}, 1}, {{kInt64, {4}}}, {kFloat, {4}})),
                 "zero_point must be 0");
  EXPECT_REFUSED(validate(one_block(MaxPool{}, {{kInt64, {1, 1, 4}}}, {kInt64, {1, 1, 4}})), "is int64");
  EXPECT_EQ(kInt64.storage_bytes(), 8U);
  EXPECT_REFUSED(validate(one_block(Dequantise{{1, 1, 1}, 0}, {{kInt8, {4}}}, {kFloat, {4}})),
                 "scale has 3 entries");
  EXPECT_REFUSED(validate(one_block(Softmax{}, {{kInt8, {4}}}, {kFloat, {4}})), "must be a float32 tensor");
}

TEST(Validate, RefusesBadAdditions) {
  const auto with = [](Add add) {
    return validate(one_block(std::move(add), {{kInt32, {4}}, {kInt32, {4}}}, {kInt8, {4}}));
  };
  Add add;
  add.lowest = -128;
  add.highest = 127;
  EXPECT_EQ(with(add), "");
  add.multiplier_a = add.multiplier_b = std::numeric_limits<std::int32_t>::min();
  EXPECT_REFUSED(with(add), "overflow 64 bits") << "2^31 * 2^31 + 2^31 * 2^31 is 2^63";
  add.multiplier_b = 1;
  EXPECT_EQ(with(add), "");
  add.shift = 63;
  EXPECT_REFUSED(with(add), "shift is above 62");
  add.shift = 0;
  add.table.assign(65536, 0);
  EXPECT_REFUSED(with(add), "at most 8 bits");
  EXPECT_REFUSED(validate(one_block(Add{}, {{kInt8, {4}}}, {kInt8, {4}})), "1 given, 2 needed");
}

TEST(Validate, DoesNotCrashOnRandomlyDamagedPrograms) {
  // validate() must not crash on a valid program with random damage. If it accepts the damaged program, the
  // program must run.
  for (const std::uint64_t seed : seeds(3000)) {
    Chance chance(seed);
    Program program = random_program(chance, 3);
    const auto damage = [&](auto& number) {
      number = static_cast<std::decay_t<decltype(number)>>(
          chance.of<std::int64_t>({0, 1, -1, 2, 255, 65535, INT32_MAX, INT32_MIN, chance.between(-9, 300)}));
    };
    Block& block = program.blocks[static_cast<std::size_t>(
        chance.between(0, static_cast<std::int64_t>(program.blocks.size()) - 1))];
    switch (chance.between(1, 5)) {
      case 1:
        damage(block.inputs[0]);
        break;
      case 2:
        damage(program.tensors[block.outputs[0]].shape.back());
        break;
      case 3:
        damage(program.tensors[block.outputs[0]].type.bits);
        break;
      case 4:
        if (auto* c = std::get_if<Convolution>(&block.operation)) {
          switch (chance.between(1, 6)) {
            case 1:
              damage(c->groups);
              break;
            case 2:
              damage(c->window.kernel_h);
              break;
            case 3:
              damage(c->window.stride_w);
              break;
            case 4:
              damage(c->window.pad_left);
              break;
            case 5:
              damage(c->accumulator.bits);
              break;
            default:
              damage(c->weights.edit()[0]);
              break;
          }
        }
        break;
      default:
        block.outputs.push_back(block.outputs[0]);
        break;
    }
    const std::string message = validate(program);
    std::uint64_t work = 0;
    for (const Tensor& tensor : program.tensors) work += tensor.elements();
    if (message.empty() && work < 100000) {
      EXPECT_NO_THROW(reference::run(program, random_inputs(chance, program))) << "seed " << seed;
    }
  }
}

TEST(Extract, KeepsTheTensorsThatTheExtractedBlocksNeed) {
  // Tensors are numbers, blocks letters: 0 -> a -> 1 -> b -> 2 -> c -> 4, and 1, 2 -> d -> 3. Outputs are 3 and 4.
  Program program;
  program.name = "whole";
  for (const char* name : {"x", "a", "b", "d", "c"})
    program.tensors.push_back({name, kInt8, {1, 1, 2}, {}, 0});
  program.tensors[3].shape[2] = 4;
  program.inputs = {0};
  program.outputs = {4, 3};
  program.blocks = {{"a", {"n"}, {0}, {1}, Rearrange{}},
                    {"b", {}, {1}, {2}, Rearrange{}},
                    {"d", {}, {1, 2}, {3}, Concat{}},
                    {"c", {}, {2}, {4}, Rearrange{}}};
  ASSERT_EQ(validate(program), "");

  const Program head = extract(program, {0, 1}, "head");
  EXPECT_EQ(validate(head), "");
  EXPECT_EQ(head.name, "head");
  ASSERT_EQ(head.outputs.size(), 2U);
  EXPECT_EQ(head.tensors[head.outputs[0]].name, "a");
  EXPECT_EQ(head.tensors[head.outputs[1]].name, "b");
  EXPECT_EQ(head.blocks[0].nodes, program.blocks[0].nodes);

  const Program tail = extract(program, {2, 3}, "tail");
  EXPECT_EQ(validate(tail), "");
  ASSERT_EQ(tail.inputs.size(), 2U);
  EXPECT_EQ(tail.tensors[tail.inputs[0]].name, "a");
  EXPECT_EQ(tail.tensors[tail.inputs[1]].name, "b");
  ASSERT_EQ(tail.outputs.size(), 2U);
  EXPECT_EQ(tail.tensors[tail.outputs[0]].name, "d");
  EXPECT_EQ(tail.tensors[tail.outputs[1]].name, "c");
}

TEST(Extract, PartsRunInSequenceEqualTheWholeProgram) {
  for (const std::uint64_t seed : seeds(100)) {
    Chance chance(seed);
    const Program whole = random_program(chance, 6);
    const auto inputs = random_inputs(chance, whole);
    std::vector<reference::Buffer> expected(whole.tensors.size());
    reference::run(whole, inputs,
                   [&](TensorIndex t, const reference::Buffer& bytes) { expected[t] = bytes; });
    const auto count = static_cast<std::uint32_t>(whole.blocks.size());
    const auto cut = static_cast<std::uint32_t>(chance.between(0, count));
    const auto named = [&](const std::string& name) {
      for (std::size_t t = 0; t < whole.tensors.size(); ++t) {
        if (whole.tensors[t].name == name) return expected[t];
      }
      return reference::Buffer{};
    };
    for (const auto& [first, last] : {std::pair{0U, cut}, std::pair{cut, count}}) {
      std::vector<std::uint32_t> blocks;
      for (std::uint32_t b = first; b < last; ++b) blocks.push_back(b);
      if (blocks.empty()) continue;
      const Program part = extract(whole, blocks, "part");
      ASSERT_EQ(validate(part), "") << "seed " << seed;
      std::vector<reference::Buffer> given;
      for (const TensorIndex t : part.inputs) given.push_back(named(part.tensors[t].name));
      const auto results = reference::run(part, given);
      for (std::size_t i = 0; i < results.size(); ++i)
        EXPECT_EQ(results[i], named(part.tensors[part.outputs[i]].name)) << "seed " << seed;
    }
  }
}

TEST(Rearrange, FindLoopsReproducesTheOrderOfRandomNestedLoops) {
  for (const std::uint64_t seed : seeds(500)) {
    Chance chance(seed);
    Rearrange r;
    r.offset = 100000;
    const std::int64_t loops = chance.between(1, 5);
    for (std::int64_t k = 0; k < loops; ++k) {
      r.extents.push_back(static_cast<std::uint32_t>(chance.between(1, 4)));
      r.strides.push_back(chance.between(-30, 30));
    }
    const auto sources = sources_of(r);
    const auto found = find_loops(sources);
    ASSERT_TRUE(found) << "seed " << seed;
    EXPECT_EQ(sources_of(*found), sources) << "seed " << seed;
    EXPECT_EQ(sources_of(simplified(r, sources.size())), sources) << "seed " << seed;
    EXPECT_LE(found->extents.size(), simplified(r, sources.size()).extents.size()) << "seed " << seed;
  }
}

TEST(Rearrange, FindLoopsRejectsOrdersThatNestedLoopsCannotProduce) {
  EXPECT_FALSE(find_loops({}));
  EXPECT_FALSE(find_loops({0, 1, 3}));
  EXPECT_FALSE(find_loops({0, 1, 2, 3, 5, 4}));
  std::vector<std::uint32_t> bits(512);  // nine loops of two turns each, one more than a Rearrange may have
  for (std::uint32_t i = 0; i < 512; ++i)
    for (std::uint32_t bit = 0; bit < 9; ++bit) bits[i] |= (i >> bit & 1U) << (8 - bit);
  EXPECT_FALSE(find_loops(bits));
}

TEST(Rearrange, KeepsOrderIsTrueOnlyIfEveryElementKeepsItsPlace) {
  EXPECT_TRUE(keeps_order({}, 24, 24));
  EXPECT_TRUE(keeps_order(transposition({2, 1, 3, 4}, {1, 0, 2, 3}), 24, 24));
  EXPECT_TRUE(keeps_order({0, {4, 1, 6}, {6, 77, 1}}, 24, 24));
  EXPECT_FALSE(keeps_order(transposition({2, 3, 4}, {1, 0, 2}), 24, 24));
  EXPECT_FALSE(keeps_order({0, {12}, {1}}, 24, 12)) << "the first elements only";
  EXPECT_FALSE(keeps_order({1, {24}, {1}}, 25, 24));
  EXPECT_FALSE(keeps_order({0, {2, 24}, {0, 1}}, 24, 48)) << "each element twice";
}

}  // namespace
}  // namespace millrace::tests::test_program
