#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "kernels/fast/executor.hpp"
#include "random_program.hpp"
#include "tests/support/allocations.hpp"

namespace millrace::tests::test_fast {
namespace {

using namespace kernels;
using fast::Executor;
using fast::SimdLevel;
using reference::Buffer;

constexpr SimdLevel kLevels[] = {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512Vnni};

/// Returns the SIMD levels that this CPU has. The tests FastExecutorAtLevel report the levels that this CPU lacks.
std::vector<SimdLevel> available_levels() {
  std::vector<SimdLevel> available;
  for (const SimdLevel level : kLevels) {
    if (fast::is_available(level)) available.push_back(level);
  }
  return available;
}

struct Frame {
  explicit Frame(const Program& program, const std::vector<Buffer>& frame) {
    // Copy each input to an odd address at the end of its allocation, so that sanitizers detect every overread.
    for (const Buffer& buffer : frame) {
      input_bytes.emplace_back(buffer.size() + 1);
      std::memcpy(input_bytes.back().data() + 1, buffer.data(), buffer.size());
    }
    for (const Buffer& buffer : input_bytes) inputs.push_back(buffer.data() + 1);
    for (const TensorIndex output : program.outputs)
      outputs_bytes.emplace_back(program.tensors[output].storage_bytes());
    for (Buffer& buffer : outputs_bytes) outputs.push_back(buffer.data());
  }
  std::vector<Buffer> input_bytes, outputs_bytes;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
};

/// A test for each SIMD level. If this CPU lacks the level, the test is reported as skipped.
class FastExecutorAtLevel : public testing::TestWithParam<SimdLevel> {};

TEST_P(FastExecutorAtLevel, OutputsOfRandomProgramsEqualTheReference) {
  const SimdLevel level = GetParam();
  if (!fast::is_available(level))
    GTEST_SKIP() << "this CPU lacks level " << to_string(level) << ": no test of this program covers it here";
  for (const std::uint64_t seed : seeds(1500)) {
    Chance chance(seed);
    const Program program = random_program(chance, static_cast<int>(chance.between(1, 6)));
    ASSERT_EQ(validate(program), "") << "seed " << seed;
    Executor executor(program, level);
    for (int repeat = 0; repeat < 2; ++repeat) {  // a second frame reveals state that the first left behind
      const std::vector<Buffer> inputs = random_inputs(chance, program);
      std::vector<Buffer> tensors(program.tensors.size());
      const std::vector<Buffer> expected =
          reference::run(program, inputs, [&](TensorIndex t, const Buffer& bytes) { tensors[t] = bytes; });
      Frame frame(program, inputs);
      executor.run(frame.inputs, frame.outputs);
      if (frame.outputs_bytes == expected) continue;
      executor.run(frame.inputs, frame.outputs, [&](TensorIndex t, std::span<const std::byte> bytes) {
        if (!std::equal(bytes.begin(), bytes.end(), tensors[t].begin(), tensors[t].end()))
          ADD_FAILURE() << "tensor " << program.tensors[t].name << " differs";
      });
      FAIL() << "seed " << seed << " (MILLRACE_SEED=" << seed << " repeats it)\n" << outline(program);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FastExecutor, FastExecutorAtLevel, testing::ValuesIn(kLevels),
                         [](const auto& level) { return std::string(to_string(level.param)); });

TEST(FastExecutor, ComputesIndicesOf32And64BitsAsTheReferenceDoes) {
  for (const std::uint8_t bits : {std::uint8_t{32}, std::uint8_t{64}}) {
    const ElementType index{ElementType::Kind::kSigned, bits}, real{ElementType::Kind::kFloat32, 32};
    Program p;
    p.name = "indices";
    p.tensors = {{"x", real, {2, 3}, {}, 0},
                 {"i", index, {2, 3}, {}, 0},
                 {"turned", index, {3, 2}, {}, 0},
                 {"y", real, {3, 2}, {}, 0}};
    p.inputs = {0};
    p.outputs = {2, 3};
    p.blocks = {{"to_index", {}, {0}, {1}, Quantise{{1.0F}, 0}},
                {"turn", {}, {1}, {2}, Rearrange{0, {3, 2}, {1, 3}}},
                {"to_real", {}, {2}, {3}, Dequantise{{1.0F}, 0}}};
    ASSERT_EQ(validate(p), "");
    const std::vector<float> x = {0, 1, -2, 70000.5F, 3e12F, -3e12F};
    Buffer input(x.size() * sizeof(float));
    std::memcpy(input.data(), x.data(), input.size());
    const std::vector<Buffer> expected = reference::run(p, {input});
    std::vector<float> y(6);
    std::memcpy(y.data(), expected[1].data(), expected[1].size());
    EXPECT_EQ(y, (std::vector<float>{0, 70000, 1, 1e9F, -2, -1e9F}));
    Executor executor(p);
    Frame frame(p, {input});
    executor.run(frame.inputs, frame.outputs);
    EXPECT_EQ(frame.outputs_bytes, expected) << "with " << int{bits} << " bits";
  }
}

TEST(FastExecutor, ObserversReceiveTheSameTensorsAsFromTheReference) {
  std::size_t seen = 0, possible = 0;
  for (const std::uint64_t seed : seeds(200)) {
    Chance chance(seed);
    const Program program = random_program(chance, 5);
    const std::vector<Buffer> inputs = random_inputs(chance, program);
    std::vector<Buffer> expected(program.tensors.size());
    reference::run(program, inputs, [&](TensorIndex t, const Buffer& bytes) { expected[t] = bytes; });
    possible += program.tensors.size();
    for (const SimdLevel level : available_levels()) {
      Frame frame(program, inputs);
      Executor executor(program, level);
      executor.run(frame.inputs, frame.outputs, [&](TensorIndex t, std::span<const std::byte> bytes) {
        ++seen;
        ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), expected[t].begin(), expected[t].end()))
            << "seed " << seed << ", level " << to_string(level) << ", tensor " << program.tensors[t].name;
      });
    }
  }
  EXPECT_GT(seen, possible * available_levels().size() * 8 / 10) << "all but fused tensors are shown";
}

TEST(FastExecutor, RunningAFrameAllocatesNothing) {
  for (const std::uint64_t seed : seeds(60)) {
    Chance chance(seed);
    const Program program = random_program(chance, 6);
    const std::vector<Buffer> inputs = random_inputs(chance, program);
    for (const SimdLevel level : available_levels()) {
      Frame frame(program, inputs);
      Executor executor(program, level);
      const std::uint64_t before = allocations_of_this_thread();
      executor.run(frame.inputs, frame.outputs);
      EXPECT_EQ(allocations_of_this_thread(), before)
          << "seed " << seed << ", level " << to_string(level) << "\n"
          << outline(program);
    }
  }
}

TEST(FastExecutor, TheAllocationCounterCountsAnAllocation) {
  const std::uint64_t before = allocations_of_this_thread();
  Chance chance(1);
  const Executor executor(random_program(chance, 1));
  EXPECT_GE(allocations_of_this_thread(), before + 2);
}

TEST(FastExecutor, DoesNotCrashOnAnyInputBytes) {
  for (const std::uint64_t seed : seeds(200)) {
    Chance chance(seed);
    const Program program = random_program(chance, 4);
    std::vector<Buffer> inputs = random_inputs(chance, program);
    for (Buffer& buffer : inputs) {
      for (std::byte& byte : buffer) byte = static_cast<std::byte>(chance.between(0, 255));
    }
    reference::run(program, inputs);
    for (const SimdLevel level : available_levels()) {
      Frame frame(program, inputs);
      Executor(program, level).run(frame.inputs, frame.outputs);
    }
  }
}

TEST(FastExecutor, OutlivesItsProgramAndCanBeMoved) {
  Chance chance(7);
  Program program = random_program(chance, 4);
  const std::vector<Buffer> inputs = random_inputs(chance, program);
  const std::vector<Buffer> expected = reference::run(program, inputs);
  Frame frame(program, inputs);
  Executor first(program);
  program = Program{};
  Executor second(std::move(first));
  second.run(frame.inputs, frame.outputs);
  EXPECT_EQ(frame.outputs_bytes, expected);
}

TEST(FastExecutor, DoesNotAllocateThePaddingOfAHugeWindow) {
  // The input is one element with 65,535 rows of padding on each side. The window reaches the element from both ends.
  Program program;
  program.name = "padding";
  program.tensors = {{"in", {ElementType::Kind::kSigned, 8}, {1, 1, 1}, {}, 0},
                     {"out", {ElementType::Kind::kSigned, 32}, {3, 3, 1}, {}, 0}};
  program.inputs = {0};
  program.outputs = {1};
  Convolution c;
  c.window.stride_h = c.window.stride_w = 65535;
  c.window.pad_top = c.window.pad_bottom = c.window.pad_left = c.window.pad_right = 65535;
  c.window.pad_value = 3;
  c.out_channels = 1;
  c.weights = {2};
  c.accumulator = {ElementType::Kind::kSigned, 32};
  program.blocks = {{"b", {}, {0}, {1}, c}};
  ASSERT_EQ(validate(program), "");
  const std::vector<Buffer> inputs = {{std::byte{10}}};
  const std::vector<Buffer> expected = reference::run(program, inputs);
  Frame frame(program, inputs);
  Executor(program).run(frame.inputs, frame.outputs);
  EXPECT_EQ(frame.outputs_bytes, expected);
}

TEST(FastExecutor, ComputesTheLowestAndHighest32BitSums) {
  for (const bool up : {true, false}) {
    for (const int form : {0, 1, 2, 3, 4, 5, 6}) {
      Program program;
      program.name = "ends";
      program.tensors = {{"in", {ElementType::Kind::kUnsigned, 1}, {1, 9, 1}, {}, 0},
                         {"out", {ElementType::Kind::kSigned, 16}, {1, 9, 1}, {}, 0}};
      program.inputs = {0};
      program.outputs = {1};
      Convolution c;
      c.out_channels = 1;
      c.weights = {static_cast<std::int16_t>(up ? 1 : -1)};
      c.bias = {up ? INT32_MAX - 1 : INT32_MIN + 1};
      c.accumulator = {ElementType::Kind::kSigned, 32};
      Requantise r;
      r.lowest = -100;
      r.highest = 155;
      r.form = form == 0  ? Requantise::Form::kMultiplyShift
               : form > 4 ? Requantise::Form::kMultiplyShiftHalfEven
                          : Requantise::Form::kThresholds;
      const std::int64_t end = up ? INT32_MAX : INT32_MIN;
      switch (form) {
        case 0:
          r.multiplier = {INT32_MAX};
          r.offset = {12345};
          r.shift = {55};
          break;
        case 1:  // only the extreme accumulator reaches the last threshold; every accumulator reaches the others
          r.thresholds.assign(255, INT64_MIN);
          r.thresholds.back() = up ? end : end + 1;
          break;
        case 2:  // no accumulator reaches the last threshold; the extreme one reaches all others
          r.thresholds.assign(255, end);
          r.thresholds.back() = INT64_MAX;
          break;
        case 3:
          r.thresholds.assign(255, end);
          break;
        case 5:  // the quotient ends in exactly .5, after an odd number (case 5) or an even number (case 6)
        case 6:
          r.multiplier = {1};
          r.offset = {-end + (form == 5 ? 4 : 12)};
          r.shift = {3};
          r.zero_point = 55;
          break;
        default:
          for (int i = 0; i < 255; ++i)
            r.thresholds.push_back(std::int64_t{INT32_MIN} + i * std::int64_t{16777216} + i % 2 + 1);
          r.thresholds.back() = INT32_MAX;
          break;
      }
      c.requantise = r;
      program.blocks = {{"b", {}, {0}, {1}, c}};
      ASSERT_EQ(validate(program), "");
      const std::vector<Buffer> inputs = {{std::byte{0}, std::byte{1}, std::byte{0}, std::byte{1},
                                           std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1},
                                           std::byte{0}}};
      const std::vector<Buffer> expected = reference::run(program, inputs);
      for (const SimdLevel level : available_levels()) {
        Frame frame(program, inputs);
        Executor(program, level).run(frame.inputs, frame.outputs);
        EXPECT_EQ(frame.outputs_bytes, expected)
            << "form " << form << ", " << (up ? "highest" : "lowest") << ", level " << to_string(level);
      }
    }
  }
}

// Requantises every accumulator in a wide range, rounding half to even. The cases below need arithmetic of different
// widths. The products with weights of 1 make each accumulator equal to an input element.
TEST(FastExecutor, RoundsHalfToEvenAtEveryWidthOfArithmetic) {
  struct Case {
    const char* what;
    std::int32_t multiplier;
    std::int64_t offset;
    std::uint8_t shift;
    std::uint8_t out_bits;
  };
  const Case cases[] = {
      {"a power of two", 1, 0, 4, 8},
      {"no shift", 1, 7, 0, 16},
      {"an offset that float32 cannot round with", 3, 5, 6, 8},
      {"products beyond 32 bits", 1 << 20, (std::int64_t{1} << 19) + (std::int64_t{5} << 20), 24, 8},
      {"sums beyond 32 bits whose halves are out of line", (1 << 20) + 1, -(std::int64_t{1} << 33), 24, 16},
      {"quotients beyond 32 bits", INT32_MAX, std::int64_t{1} << 61, 9, 8},
  };
  for (const Case& k : cases) {
    for (const std::int32_t zero_point : {0, 3, -4}) {
      Program program;
      program.name = "halves";
      const std::uint32_t count = 4096;
      program.tensors = {{"in", {ElementType::Kind::kSigned, 13}, {1, count, 1}, {}, 0},
                         {"out", {ElementType::Kind::kSigned, k.out_bits}, {1, count, 9}, {}, 0}};
      program.inputs = {0};
      program.outputs = {1};
      Convolution c;
      c.out_channels = 9;
      c.weights.edit().assign(9, 1);
      c.accumulator = {ElementType::Kind::kSigned, 14};
      Requantise r;
      r.form = Requantise::Form::kMultiplyShiftHalfEven;
      r.multiplier = {k.multiplier};
      r.offset = {k.offset};
      r.shift = {k.shift};
      r.zero_point = zero_point;
      r.lowest = static_cast<std::int32_t>(program.tensors[1].type.lowest());
      r.highest = static_cast<std::int32_t>(program.tensors[1].type.highest());
      c.requantise = r;
      program.blocks = {{"b", {}, {0}, {1}, c}};
      ASSERT_EQ(validate(program), "");
      Buffer input(std::size_t{count} * 2);
      for (std::uint32_t i = 0; i < count; ++i) {
        const auto element = static_cast<std::int16_t>(static_cast<std::int32_t>(i) - 2048);
        std::memcpy(input.data() + std::size_t{i} * 2, &element, 2);
      }
      const std::vector<Buffer> expected = reference::run(program, {input});
      for (const SimdLevel level : available_levels()) {
        Frame frame(program, {input});
        Executor(program, level).run(frame.inputs, frame.outputs);
        EXPECT_EQ(frame.outputs_bytes, expected)
            << k.what << ", zero point " << zero_point << ", level " << to_string(level);
      }
    }
  }
}

TEST(FastExecutor, ThresholdSearchStaysInsideTheTableAtTheHighestSum) {
  // The thresholds lie near a straight line and end far below the highest sum, which is the largest 32-bit number.
  Program program;
  program.name = "beyond";
  program.tensors = {{"in", {ElementType::Kind::kUnsigned, 16}, {1, 4, 1}, {}, 0},
                     {"out", {ElementType::Kind::kSigned, 16}, {1, 4, 1}, {}, 0}};
  program.inputs = {0};
  program.outputs = {1};
  Convolution c;
  c.out_channels = 1;
  c.weight_type = {ElementType::Kind::kSigned, 16};
  c.weights = {32767};
  c.bias = {static_cast<std::int32_t>(INT32_MAX - std::int64_t{65535} * 32767)};
  c.accumulator = {ElementType::Kind::kSigned, 32};
  Requantise r;
  r.form = Requantise::Form::kThresholds;
  r.highest = 255;
  for (int i = 0; i < 255; ++i) r.thresholds.push_back(1000000 * (i + 1) + (i % 3 - 1) * 150000);
  c.requantise = r;
  program.blocks = {{"b", {}, {0}, {1}, c}};
  ASSERT_EQ(validate(program), "");
  const std::uint16_t elements[] = {65535, 0, 4000, 65534};
  Buffer input(sizeof elements);
  std::memcpy(input.data(), elements, sizeof elements);
  const std::vector<Buffer> expected = reference::run(program, {input});
  for (const SimdLevel level : available_levels()) {
    Frame frame(program, {input});
    Executor(program, level).run(frame.inputs, frame.outputs);
    EXPECT_EQ(frame.outputs_bytes, expected) << "level " << to_string(level);
  }
}

TEST(FastExecutor, EnvironmentVariableLowersTheSimdLevel) {
  ::setenv("MILLRACE_SIMD", "baseline", 1);
  EXPECT_EQ(fast::best_level(), SimdLevel::kBaseline);
  ::setenv("MILLRACE_SIMD", "no such level", 1);
  const SimdLevel best = fast::best_level();
  ::unsetenv("MILLRACE_SIMD");
  EXPECT_EQ(fast::best_level(), best);
  EXPECT_TRUE(fast::is_available(best));
}

}  // namespace
}  // namespace millrace::tests::test_fast
