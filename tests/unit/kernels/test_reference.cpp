#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/program/rearrange.hpp"
#include "random_program.hpp"
#include "small_program.hpp"

namespace millrace::tests::test_reference {
namespace {

using namespace kernels;
using Kind = ElementType::Kind;
using reference::Buffer;

template <class Out, class... In>
std::vector<Out> result(const Program& program, const std::vector<In>&... inputs) {
  EXPECT_EQ(validate(program), "");
  return values_of<Out>(reference::run(program, {bytes_of(inputs)...})[0]);
}

TEST(Reference, ConvolvesWithPaddingBiasAndStride) {
  Convolution c;
  c.window.kernel_h = c.window.kernel_w = 2;
  c.window.stride_w = 2;
  c.window.pad_left = c.window.pad_bottom = 1;
  c.window.pad_value = 10;
  c.out_channels = 1;
  c.weight_type = kInt8;
  c.weights = {1, 2, 3, 4};
  c.bias = {100};
  c.accumulator = kInt32;
  // The padded input, with 10 as the padding value: 10 | 1 2 3 10 | 4 5 6 10 |10 10 10
  const std::vector<std::int32_t> expected = {100 + 10 + 2 + 30 + 16, 100 + 2 + 6 + 15 + 24,
                                              100 + 10 + 8 + 30 + 40, 100 + 5 + 12 + 30 + 40};
  EXPECT_EQ((result<std::int32_t, std::int8_t>(one_block(c, {{kInt8, {2, 3, 1}}}, {kInt32, {2, 2, 1}}),
                                               {1, 2, 3, 4, 5, 6})),
            expected);
}

TEST(Reference, ConvolvesInGroupsWithDilation) {
  Convolution c;
  c.window.kernel_w = 2;
  c.window.dilation_w = 2;
  c.groups = 2;
  c.out_channels = 4;  // two output channels for each input channel
  c.weight_type = kInt8;
  c.weights = {1, 0, 0, 1, 1, 1, 2, -1};
  c.accumulator = kInt32;
  const Program program = one_block(c, {{kUint8, {1, 3, 2}}}, {kInt32, {1, 1, 4}});
  EXPECT_EQ((result<std::int32_t, std::uint8_t>(program, {1, 2, 3, 4, 255, 6})),
            (std::vector<std::int32_t>{1, 255, 8, -2}));
}

TEST(Reference, ComputesAFullyConnectedLayer) {
  Convolution c;
  c.window.kernel_h = 2;
  c.window.kernel_w = 1;
  c.out_channels = 2;
  c.weight_type = kInt8;
  c.weights = {1, 2, 3, 4, -1, -2, -3, -4};
  c.bias = {0, 7};
  c.accumulator = {Kind::kSigned, 12};
  c.requantise = shift_right(1);
  const Program program = one_block(c, {{kInt8, {2, 1, 2}}}, {kInt8, {1, 1, 2}});
  // The sums are 30 and -23. Halved, with a half rounded up, they give 15 and -11.
  EXPECT_EQ((result<std::int8_t, std::int8_t>(program, {1, 2, 3, 4})), (std::vector<std::int8_t>{15, -11}));
}

TEST(Reference, MaxPoolIgnoresPadding) {
  MaxPool p;
  p.window.kernel_h = p.window.kernel_w = 2;
  p.window.stride_h = p.window.stride_w = 2;
  p.window.pad_top = p.window.pad_left = 1;
  const Program program = one_block(p, {{kInt8, {3, 3, 1}}}, {kInt8, {2, 2, 1}});
  EXPECT_EQ((result<std::int8_t, std::int8_t>(program, {-9, -8, -7, -6, -5, -4, -3, -2, -1})),
            (std::vector<std::int8_t>{-9, -7, -3, -1}));
}

TEST(Reference, SumPoolCountsPadding) {
  SumPool p;
  p.window.kernel_w = 2;
  p.window.pad_left = 1;
  p.window.pad_value = 3;
  p.accumulator = {Kind::kSigned, 16};
  p.requantise = shift_right(0);
  const Program program = one_block(p, {{kInt8, {1, 2, 2}}}, {kInt8, {1, 2, 2}});
  EXPECT_EQ((result<std::int8_t, std::int8_t>(program, {10, 20, 30, 40})),
            (std::vector<std::int8_t>{13, 23, 40, 60}));
}

TEST(Reference, RequantisesByMultiplyAndShift) {
  Requantise r = shift_right(3);
  EXPECT_EQ(reference::requantise(r, 11, 0), 1);
  EXPECT_EQ(reference::requantise(r, 12, 0), 2) << "a half goes up";
  EXPECT_EQ(reference::requantise(r, -12, 0), -1) << "also below zero";
  EXPECT_EQ(reference::requantise(r, -13, 0), -2);
  EXPECT_EQ(reference::requantise(r, 100000, 0), 127);
  EXPECT_EQ(reference::requantise(r, -100000, 0), -128);
  r.multiplier = {1, 1000};
  EXPECT_EQ(reference::requantise(r, 1, 1), 125);
  r.offset = {std::int64_t{1} << 61};
  r.shift = {62};
  EXPECT_EQ(reference::requantise(r, std::numeric_limits<std::int32_t>::max(), 1), 0);
}

TEST(Reference, RequantisesByMultiplyAndShiftAndRoundsHalfToEven) {
  Requantise r = shift_right(3);
  r.form = Requantise::Form::kMultiplyShiftHalfEven;
  r.offset = {0};
  const auto quotients = [&r](std::vector<std::int64_t> accumulators) {
    for (std::int64_t& acc : accumulators) acc = reference::requantise(r, acc, 0);
    return accumulators;
  };
  EXPECT_EQ(quotients({3, 4, 5, 11, 12, 13, 20, 28}), (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 2, 4}));
  EXPECT_EQ(quotients({-3, -4, -5, -11, -12, -13, -20, -28}),
            (std::vector<std::int64_t>{0, 0, -1, -1, -2, -2, -2, -4}));
  r.zero_point = 5;  // is added after rounding, so 4 / 8 still rounds to the even number 0
  EXPECT_EQ(quotients({4, 12, 20, 100000, -100000}), (std::vector<std::int64_t>{5, 7, 7, 127, -128}));
  r.shift = {0};
  EXPECT_EQ(quotients({4, -4}), (std::vector<std::int64_t>{9, 1}));
}

TEST(Reference, RoundingHalfToEvenEqualsTheFormulaOfTheHardware) {
  Requantise r = shift_right(0, -32768, 32767);
  r.form = Requantise::Form::kMultiplyShiftHalfEven;
  for (std::uint8_t shift = 0; shift < 8; ++shift) {
    r.shift = {shift};
    r.offset = {-3};
    r.multiplier = {3};
    for (std::int64_t acc = -600; acc <= 600; ++acc) {
      const std::int64_t sum = 3 * acc - 3;
      const std::int64_t wanted =
          shift == 0 ? sum : (sum + (std::int64_t{1} << (shift - 1)) - 1 + ((sum >> shift) & 1)) >> shift;
      const auto nearest =
          static_cast<std::int64_t>(std::nearbyint(std::ldexp(static_cast<double>(sum), -shift)));
      ASSERT_EQ(reference::requantise(r, acc, 0), wanted) << "shift " << +shift << ", accumulator " << acc;
      ASSERT_EQ(wanted, nearest);
    }
  }
}

TEST(Reference, RequantisesByThresholds) {
  Requantise r;
  r.form = Requantise::Form::kThresholds;
  r.lowest = -1;
  r.highest = 2;
  r.thresholds = {-5, 0, 0, 10, 20, std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(reference::requantise(r, -6, 0), -1);
  EXPECT_EQ(reference::requantise(r, -5, 0), 0);
  EXPECT_EQ(reference::requantise(r, 0, 0), 2) << "two equal thresholds are one step of two";
  EXPECT_EQ(reference::requantise(r, 9, 1), -1);
  EXPECT_EQ(reference::requantise(r, 1000000, 1), 1);
}

TEST(Reference, RescalesChannelByChannel) {
  Requantise r = shift_right(0, 0, 255);
  r.multiplier = {1, 3};
  const Program program = one_block(Rescale{r}, {{kInt8, {1, 2, 2}}}, {kUint8, {1, 2, 2}});
  EXPECT_EQ((result<std::uint8_t, std::int8_t>(program, {-5, 5, 100, 100})),
            (std::vector<std::uint8_t>{0, 15, 100, 255}));
}

TEST(Reference, LookupTablesStartAtTheLowestInputValue) {
  const Program of_signed = one_block(Lookup{{10, 20, 30, 40}}, {{{Kind::kSigned, 2}, {4}}}, {kInt16, {4}});
  EXPECT_EQ((result<std::int16_t, std::int8_t>(of_signed, {-2, -1, 0, 1})),
            (std::vector<std::int16_t>{10, 20, 30, 40}));
  const Program of_unsigned =
      one_block(Lookup{{10, 20, 30, 40}}, {{{Kind::kUnsigned, 2}, {4}}}, {kInt16, {4}});
  EXPECT_EQ((result<std::int16_t, std::int8_t>(of_unsigned, {3, 2, 1, 0})),
            (std::vector<std::int16_t>{40, 30, 20, 10}));
}

TEST(Reference, AddsWithScalesOrATable) {
  Add add;
  add.multiplier_a = 3;
  add.multiplier_b = -1;
  add.offset = 1;
  add.shift = 1;
  add.lowest = -10;
  add.highest = 10;
  const Program scaled = one_block(add, {{kInt8, {3}}, {kUint8, {3}}}, {kInt8, {3}});
  EXPECT_EQ((result<std::int8_t, std::int8_t, std::uint8_t>(scaled, {1, 100, -4}, {2, 0, 1})),
            (std::vector<std::int8_t>{1, 10, -6}));

  Add table;
  for (std::int16_t i = 0; i < 8; ++i) table.table.push_back(i);
  const Program tabled =
      one_block(table, {{{Kind::kSigned, 1}, {2}}, {{Kind::kUnsigned, 2}, {2}}}, {kInt8, {2}});
  EXPECT_EQ((result<std::int8_t, std::int8_t, std::uint8_t>(tabled, {-1, 0}, {3, 1})),
            (std::vector<std::int8_t>{3, 5}));
}

TEST(Reference, ConcatenatesAlongTheLastAxis) {
  const Program program = one_block(Concat{}, {{kInt8, {2, 1}}, {kInt8, {2, 2}}}, {kInt8, {2, 3}});
  EXPECT_EQ((result<std::int8_t, std::int8_t, std::int8_t>(program, {1, 2}, {3, 4, 5, 6})),
            (std::vector<std::int8_t>{1, 3, 4, 2, 5, 6}));
}

TEST(Reference, PermutesAsOnnxTransposeDoes) {
  const Program program = one_block(transposition({2, 1, 3}, {2, 0, 1}), {{kInt8, {1, 6}}}, {kInt8, {3, 2}});
  EXPECT_EQ((result<std::int8_t, std::int8_t>(program, {1, 2, 3, 4, 5, 6})),
            (std::vector<std::int8_t>{1, 4, 2, 5, 3, 6}));
  const Program plain = one_block(Rearrange{}, {{kInt8, {1, 6}}}, {kInt8, {3, 2}});
  EXPECT_EQ((result<std::int8_t, std::int8_t>(plain, {1, 2, 3, 4, 5, 6})),
            (std::vector<std::int8_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Reference, SelectsRepeatsAndReversesElements) {
  const auto rearranged = [](Rearrange r, std::uint32_t elements) {
    const Program program = one_block(std::move(r), {{kInt8, {2, 3}}}, {kInt8, {elements}});
    return result<std::int8_t, std::int8_t>(program, {1, 2, 3, 4, 5, 6});
  };
  EXPECT_EQ(rearranged({1, {2, 2}, {3, 1}}, 4), (std::vector<std::int8_t>{2, 3, 5, 6}));
  EXPECT_EQ(rearranged({0, {3, 2}, {1, 0}}, 6), (std::vector<std::int8_t>{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(rearranged({5, {2, 3}, {-3, -1}}, 6), (std::vector<std::int8_t>{6, 5, 4, 3, 2, 1}));
}

TEST(Reference, QuantisesAsOnnxDoes) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  const Program program = one_block(Quantise{{2.0F}, 10}, {{kFloat, {9}}}, {kUint8, {9}});
  EXPECT_EQ((result<std::uint8_t, float>(
                program, {1.0F, 3.0F, 5.0F, -1.0F, -100.0F, 1e30F, nan, infinite, -infinite})),
            (std::vector<std::uint8_t>{10, 12, 12, 10, 0, 255, 10, 255, 0}))
      << "halves go to even";
}

TEST(Reference, DequantisesAsOnnxDoes) {
  const Program program = one_block(Dequantise{{0.5F, 0.1F}, -3}, {{kInt8, {1, 2}}}, {kFloat, {1, 2}});
  EXPECT_EQ((result<float, std::int8_t>(program, {5, -128})), (std::vector<float>{4.0F, -125.0F * 0.1F}));
}

TEST(Reference, SoftmaxSumsToOneAndDoesNotOverflow) {
  const Program program = one_block(Softmax{}, {{kFloat, {2, 2}}}, {kFloat, {2, 2}});
  const std::vector<float> y = result<float, float>(program, {1000.0F, 1000.0F, 0.0F, std::log(3.0F)});
  EXPECT_FLOAT_EQ(y[0], 0.5F);
  EXPECT_FLOAT_EQ(y[2], 0.25F);
  EXPECT_FLOAT_EQ(y[3], 0.75F);
}

// The independent implementation of a convolution takes each input element and adds its products to all sums that use
// the element.
TEST(Reference, ConvolutionEqualsAnIndependentImplementation) {
  for (const std::uint64_t seed : seeds(300)) {
    Chance chance(seed);
    const Program program = random_program(chance, 1);
    const auto* c = std::get_if<Convolution>(&program.blocks[0].operation);
    const Tensor& in = program.tensors[program.inputs[0]];
    if (c == nullptr || program.blocks.size() != 1 || in.type.storage_bytes() != 1) continue;
    const Window& w = c->window;
    const Tensor& out = program.tensors[1];
    const std::vector<Buffer> inputs = random_inputs(chance, program);
    const std::int64_t height = in.shape[0], width = in.shape[1], channels = in.shape[2],
                       group_in = channels / c->groups;
    const std::int64_t group_out = c->out_channels / c->groups;
    std::vector<std::int64_t> acc(out.elements());
    for (std::size_t i = 0; i < acc.size(); ++i) acc[i] = c->bias.empty() ? 0 : c->bias[i % c->out_channels];
    for (std::int64_t y = -std::int64_t{w.pad_top}; y < height + w.pad_bottom; ++y) {
      for (std::int64_t x = -std::int64_t{w.pad_left}; x < width + w.pad_right; ++x) {
        for (std::int64_t i = 0; i < channels; ++i) {
          std::int64_t value = w.pad_value;
          if (y >= 0 && y < height && x >= 0 && x < width) {
            const auto byte = inputs[0][static_cast<std::size_t>((y * width + x) * channels + i)];
            value = in.type.kind == Kind::kUnsigned ? std::to_integer<std::uint8_t>(byte)
                                                    : std::to_integer<std::int8_t>(byte);
          }
          for (std::int64_t ky = 0; ky < w.kernel_h; ++ky) {
            for (std::int64_t kx = 0; kx < w.kernel_w; ++kx) {
              const std::int64_t top = y + w.pad_top - ky * w.dilation_h,
                                 left = x + w.pad_left - kx * w.dilation_w;
              if (top < 0 || left < 0 || top % w.stride_h != 0 || left % w.stride_w != 0) continue;
              const std::int64_t oy = top / w.stride_h, ox = left / w.stride_w;
              if (oy >= out.shape[0] || ox >= out.shape[1]) continue;
              for (std::int64_t o = i / group_in * group_out; o < (i / group_in + 1) * group_out; ++o) {
                const std::int64_t at = ((o * w.kernel_h + ky) * w.kernel_w + kx) * group_in + i % group_in;
                acc[static_cast<std::size_t>((oy * out.shape[1] + ox) * out.shape[2] + o)] +=
                    value * c->weights[static_cast<std::size_t>(at)];
              }
            }
          }
        }
      }
    }
    Buffer expected(out.storage_bytes());
    for (std::size_t i = 0; i < acc.size(); ++i) {
      const std::int64_t value =
          c->requantise ? reference::requantise(*c->requantise, acc[i], i % c->out_channels) : acc[i];
      std::memcpy(expected.data() + i * out.type.storage_bytes(), &value, out.type.storage_bytes());
    }
    EXPECT_EQ(reference::run(program, inputs)[0], expected) << "seed " << seed << "\n" << outline(program);
  }
}

TEST(Reference, ReturnsOnlyValuesOfTheOutputType) {
  for (const std::uint64_t seed : seeds(300)) {
    Chance chance(seed);
    const Program program = random_program(chance, 4);
    reference::run(program, random_inputs(chance, program), [&](TensorIndex t, const Buffer& bytes) {
      const Tensor& tensor = program.tensors[t];
      ASSERT_EQ(bytes.size(), tensor.storage_bytes());
      if (tensor.type.storage_bytes() != 1) return;
      for (const std::byte byte : bytes) {
        const std::int64_t value = tensor.type.kind == Kind::kUnsigned
                                       ? std::to_integer<std::uint8_t>(byte)
                                       : static_cast<std::int64_t>(std::to_integer<std::int8_t>(byte));
        ASSERT_GE(value, tensor.type.lowest()) << "seed " << seed;
        ASSERT_LE(value, tensor.type.highest()) << "seed " << seed;
        ASSERT_TRUE(tensor.type.kind != Kind::kBipolar || value != 0) << "seed " << seed;
      }
    });
  }
}

}  // namespace
}  // namespace millrace::tests::test_reference
