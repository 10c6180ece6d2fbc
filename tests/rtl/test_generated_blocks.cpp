// Tests generated blocks of every kind with several foldings, side by side in one partition, in a Verilator simulation.
// Every output byte must equal kernels/reference, with and without stalls. Interval, latency and the fill levels of
// FIFOs must equal the predictions exactly. Further tests load other parameters into the same hardware.
//
// This source has more than 500 lines because every kind of block has its own list of foldings (degrees of
// parallelism).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>

#include "compiler/emit/rtl/rtl.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/weights.hpp"
#include "kernels/program/packing.hpp"
#include "kernels/program/rearrange.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/rtl/build.hpp"
#include "runtime/rtl/system.hpp"

namespace millrace::test_generated_blocks {
namespace {

using compiler::generators::Design;
using compiler::generators::Folding;
using compiler::generators::Multiplier;
using compiler::generators::WindowStyle;
using kernels::ElementType;
using kernels::Program;
using kernels::Requantise;
using kernels::TensorIndex;
using kernels::Window;
using Buffer = kernels::reference::Buffer;

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};
constexpr ElementType kUint8{ElementType::Kind::kUnsigned, 8};
constexpr ElementType kInt4{ElementType::Kind::kSigned, 4};
constexpr ElementType kInt9{ElementType::Kind::kSigned, 9};
constexpr ElementType kUint4{ElementType::Kind::kUnsigned, 4};
constexpr ElementType kBipolar{ElementType::Kind::kBipolar, 1};

constexpr std::uint64_t kSeed = 20;

using Shape = std::vector<std::uint32_t>;

Window window(std::uint32_t kernel, std::uint32_t stride = 1, std::uint32_t pad = 0,
              std::uint32_t dilation = 1) {
  Window made;
  made.kernel_h = made.kernel_w = kernel;
  made.stride_h = made.stride_w = stride;
  made.dilation_h = made.dilation_w = dilation;
  made.pad_top = made.pad_left = made.pad_bottom = made.pad_right = pad;
  return made;
}

Folding folding(std::uint32_t pe, std::uint32_t simd, WindowStyle style = WindowStyle::kNone,
                Multiplier multiplier = Multiplier::kDspPair) {
  Folding made;
  made.pe = pe;
  made.simd = simd;
  made.window = style;
  made.multiplier = multiplier;
  return made;
}

Folding lanes(std::uint32_t simd, std::uint32_t pixels = 1) {
  Folding made;
  made.simd = simd;
  made.pixels = pixels;
  return made;
}

/// Builds a partition of independent blocks, with a folding (a degree of parallelism) for each block.
class Blocks {
 public:
  Blocks() : random_(kSeed) { program_.name = "part0"; }

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  TensorIndex input(ElementType type, Shape shape) {
    program_.inputs.push_back(tensor(type, std::move(shape)));
    return program_.inputs.back();
  }

  /// Adds a block and returns its result. The result is also an output of the partition, unless `inner` is true.
  TensorIndex block(const std::string& name, kernels::Operation operation, std::vector<TensorIndex> from,
                    ElementType type, Shape shape, const Folding& how, bool inner = false) {
    const TensorIndex made = tensor(type, std::move(shape));
    kernels::Block added;
    added.name = name;
    added.inputs = std::move(from);
    added.outputs = {made};
    added.operation = std::move(operation);
    program_.blocks.push_back(std::move(added));
    foldings_.push_back(how);
    if (!inner) program_.outputs.push_back(made);
    return made;
  }

  /// Returns a random requantisation. With `form` 0, it multiplies and shifts with constants for each channel. With 1,
  /// it divides by a power of two and rounds half to even. With 2, it compares with thresholds.
  Requantise requantise(int form, std::uint32_t channels, ElementType out) {
    Requantise step;
    step.lowest = static_cast<std::int32_t>(out.lowest());
    step.highest = static_cast<std::int32_t>(out.highest());
    if (form == 2) {
      step.form = Requantise::Form::kThresholds;
      const std::int64_t steps = step.highest - step.lowest;
      for (std::uint32_t c = 0; c < channels; ++c) {
        std::int64_t at = -2000 + between(-50, 50);
        for (std::int64_t i = 0; i < steps; ++i) step.thresholds.push_back(at += between(0, 4000 / steps));
      }
      if (out.kind == ElementType::Kind::kBipolar)
        for (std::uint32_t c = 0; c < channels; ++c) step.thresholds[2 * c + 1] = step.thresholds[2 * c];
      return step;
    }
    step.form = form == 1 ? Requantise::Form::kMultiplyShiftHalfEven : Requantise::Form::kMultiplyShift;
    for (std::uint32_t c = 0; c < (form == 1 ? 1 : channels); ++c) {
      step.multiplier.push_back(form == 1 ? 1 : static_cast<std::int32_t>(between(100, 60000)));
      step.offset.push_back(form == 1 ? 0 : between(-100000, 100000));
      step.shift.push_back(form == 1 ? 5 : static_cast<std::uint8_t>(between(17, 20)));
    }
    return step;
  }

  kernels::Convolution convolution(const Window& w, std::uint32_t in, std::uint32_t out, std::uint32_t groups,
                                   ElementType weights, ElementType to, int form) {
    kernels::Convolution made;
    made.window = w;
    made.out_channels = out;
    made.groups = groups;
    made.weight_type = weights;
    made.accumulator = {ElementType::Kind::kSigned, 24};
    for (std::uint32_t i = 0; i < out * w.kernel_h * w.kernel_w * (in / groups); ++i) {
      std::int64_t value = between(weights.lowest() + 1, weights.highest());
      if (weights.kind == ElementType::Kind::kBipolar) value = between(0, 1) == 0 ? -1 : 1;
      made.weights.edit().push_back(static_cast<std::int16_t>(value));
    }
    for (std::uint32_t i = 0; i < out; ++i)
      made.bias.push_back(static_cast<std::int32_t>(between(-300, 300)));
    if (form >= 0) made.requantise = requantise(form, out, to);
    return made;
  }

  const Program& program() const { return program_; }
  const std::vector<Folding>& foldings() const { return foldings_; }

 private:
  TensorIndex tensor(ElementType type, Shape shape) {
    program_.tensors.push_back(
        {"t" + std::to_string(program_.tensors.size()), type, std::move(shape), {}, 0});
    return static_cast<TensorIndex>(program_.tensors.size() - 1);
  }

  Program program_;
  std::vector<Folding> foldings_;
  std::mt19937_64 random_;
};

void add_convolutions(Blocks& b) {
  const auto parallel = WindowStyle::kParallel, tap = WindowStyle::kFolded;
  Folding two = folding(6, 12, parallel);
  two.pixels = 2;
  b.block("two_pixels", b.convolution(window(3), 4, 6, 1, kInt8, kInt8, 1), {b.input(kInt8, {6, 8, 4})},
          kInt8, {4, 6, 6}, two);
  two.pe = 3;
  two.multiplier = Multiplier::kDsp;
  b.block("two_folded", b.convolution(window(3, 1, 1), 4, 6, 1, kInt8, kInt8, 2), {b.input(kInt8, {5, 8, 4})},
          kInt8, {5, 8, 6}, two);
  b.block("window", b.convolution(window(3), 2, 8, 1, kInt8, kInt8, 0), {b.input(kUint8, {6, 7, 2})}, kInt8,
          {4, 5, 8}, folding(4, 9, parallel));
  b.block("stride", b.convolution(window(3, 2, 1), 2, 4, 1, kInt4, kUint4, 0), {b.input(kUint4, {7, 7, 2})},
          kUint4, {4, 4, 4}, folding(2, 6, parallel, Multiplier::kSoft));
  Folding folded = folding(2, 6, tap);
  folded.window_lanes = 2;
  b.block("folded", b.convolution(window(3, 1, 1), 4, 6, 1, kInt8, kInt8, 1), {b.input(kInt8, {5, 6, 4})},
          kInt8, {5, 6, 6}, folded);
  folded = folding(5, 1, tap, Multiplier::kDsp);
  b.block("dilated", b.convolution(window(2, 1, 0, 2), 3, 5, 1, kInt8, kInt8, 0), {b.input(kInt8, {6, 5, 3})},
          kInt8, {4, 3, 5}, folded);
  folded = folding(2, 1, tap, Multiplier::kDsp);
  folded.window_lanes = 2;
  b.block("depthwise", b.convolution(window(3, 1, 1), 4, 4, 4, kInt8, kInt8, 0), {b.input(kInt8, {5, 5, 4})},
          kInt8, {5, 5, 4}, folded);
  b.block("grouped", b.convolution(window(1), 4, 6, 2, kInt8, kInt8, 2), {b.input(kInt8, {4, 4, 4})}, kInt8,
          {4, 4, 6}, folding(3, 2));
  folded = folding(1, 6, tap);
  folded.window_lanes = 6;
  b.block("groups", b.convolution(window(3, 1, 1), 6, 9, 3, kInt8, kInt8, 0), {b.input(kInt8, {4, 5, 6})},
          kInt8, {4, 5, 9}, folded);
  folded = folding(2, 9, tap, Multiplier::kDsp);
  folded.window_lanes = 4;
  b.block("halves", b.convolution(window(3, 2, 1), 4, 8, 2, kInt8, kInt8, 1), {b.input(kInt8, {5, 5, 4})},
          kInt8, {3, 3, 8}, folded);
  // Weights of uint8 less a zero point.
  b.block("nine_bits", b.convolution(window(3, 1, 1), 2, 4, 1, kInt9, kInt8, 0), {b.input(kUint8, {4, 5, 2})},
          kInt8, {4, 5, 4}, folding(2, 6, parallel, Multiplier::kDsp));
  b.block("nine_bits_soft", b.convolution(window(1), 6, 4, 1, kInt9, kUint8, 2), {b.input(kInt8, {2, 3, 6})},
          kUint8, {2, 3, 4}, folding(2, 3, WindowStyle::kNone, Multiplier::kSoft));
  folded = folding(2, 1, tap, Multiplier::kDsp);
  folded.window_lanes = 2;
  b.block("nine_bits_depthwise", b.convolution(window(3, 1, 1), 4, 4, 4, kInt9, kInt8, 0),
          {b.input(kUint8, {5, 5, 4})}, kInt8, {5, 5, 4}, folded);
  b.block("whole", b.convolution(window(3), 2, 10, 1, kInt8, kInt8, 1), {b.input(kInt8, {3, 3, 2})}, kInt8,
          {1, 1, 10}, folding(5, 6));
  b.block("dense", b.convolution(window(1), 12, 7, 1, kInt8, kInt8, -1), {b.input(kInt8, {1, 1, 12})},
          {ElementType::Kind::kSigned, 24}, {1, 1, 7}, folding(7, 4));
  Folding pixels = folding(6, 4);
  pixels.pixels = 2;
  b.block("points", b.convolution(window(1), 4, 6, 1, kInt8, kInt8, 0), {b.input(kInt8, {2, 6, 4})}, kInt8,
          {2, 6, 6}, pixels);
  auto bipolar = b.convolution(window(3, 1, 1), 8, 4, 1, kBipolar, kBipolar, 2);
  bipolar.window.pad_value = -1;
  b.block("bits", bipolar, {b.input(kBipolar, {4, 5, 8})}, kBipolar, {4, 5, 4},
          folding(4, 24, parallel, Multiplier::kSoft));
}

/// Adds blocks for pictures with fewer rows than the convolution's window, down to the fewest rows that a parallel
/// window accepts. Uses every kind of window that the generator offers.
void add_low(Blocks& b) {
  const auto add = [&](const std::string& name, const Window& w, const Shape& in, const Shape& out) {
    const auto layer = b.convolution(w, in[2], out[2], 1, kInt8, kInt8, 0);
    Program alone;
    alone.tensors = {{"x", kInt8, in, {}, 0}, {"y", kInt8, out, {}, 0}};
    alone.inputs = {0};
    alone.outputs = {1};
    kernels::Block block;
    block.name = name;
    block.inputs = {0};
    block.outputs = {1};
    block.operation = layer;
    alone.blocks.push_back(block);
    const auto generator = compiler::generators::Generator::make(alone, 0);
    ASSERT_TRUE(generator.ok()) << generator.error().message();
    std::map<std::pair<WindowStyle, std::uint32_t>, Folding> ways;
    for (const std::uint64_t interval : (*generator)->intervals())
      for (const Folding& offered : (*generator)->foldings(interval))
        ways.emplace(std::pair(offered.window, offered.pixels), offered);
    ASSERT_FALSE(ways.empty()) << name;
    for (const auto& [way, how] : ways)
      b.block(
          name + (way.first == WindowStyle::kParallel ? "_at_once" : "_folded") + std::to_string(way.second),
          layer, {b.input(kInt8, in)}, kInt8, out, how);
  };
  add("line", window(3, 1, 1), {1, 4, 2}, {1, 4, 3});
  add("two_lines", window(5, 1, 2), {2, 4, 1}, {2, 4, 3});
  add("wide_apart", window(3, 1, 4, 4), {4, 4, 1}, {4, 4, 3});
  add("skipping", window(3, 2, 1), {1, 4, 2}, {1, 2, 3});
  add("just", window(3, 1, 1), {2, 4, 2}, {2, 4, 3});
  add("just_five", window(5, 1, 2), {3, 4, 1}, {3, 4, 3});
}

/// Adds layers whose weights are large enough to be streamed from memory; a line of weights takes a part of a memory
/// word, one word or several words. Also adds a layer with too few weights, which are loaded instead.
void add_streamed(Blocks& b) {
  const auto plain = Multiplier::kDsp;
  b.block("part", b.convolution(window(1), 64, 72, 1, kInt8, kInt8, 0), {b.input(kInt8, {1, 1, 64})}, kInt8,
          {1, 1, 72}, folding(6, 4, WindowStyle::kNone, plain));
  b.block("odd", b.convolution(window(1), 70, 150, 1, kInt4, kUint4, 2), {b.input(kUint4, {1, 1, 70})},
          kUint4, {1, 1, 150}, folding(3, 7, WindowStyle::kNone, plain));
  b.block("word", b.convolution(window(1), 64, 64, 1, kInt8, kInt8, 1), {b.input(kUint8, {1, 1, 64})}, kInt8,
          {1, 1, 64}, folding(8, 8, WindowStyle::kNone, plain));
  b.block("long", b.convolution(window(1), 72, 64, 1, kInt8, kInt8, 0), {b.input(kInt8, {2, 2, 72})}, kInt8,
          {2, 2, 64}, folding(16, 9, WindowStyle::kNone, plain));
  Folding tap = folding(4, 8, WindowStyle::kFolded, plain);
  tap.window_lanes = 8;
  b.block("windows", b.convolution(window(3, 1, 1), 16, 32, 1, kInt8, kInt8, 0), {b.input(kInt8, {3, 4, 16})},
          kInt8, {3, 4, 32}, tap);
  b.block("signs", b.convolution(window(1), 256, 128, 1, kBipolar, kBipolar, 2),
          {b.input(kBipolar, {1, 1, 256})}, kBipolar, {1, 1, 128},
          folding(8, 32, WindowStyle::kNone, Multiplier::kSoft));
  b.block("small", b.convolution(window(1), 12, 8, 1, kInt8, kInt8, 0), {b.input(kInt8, {1, 1, 12})}, kInt8,
          {1, 1, 8}, folding(4, 4, WindowStyle::kNone, plain));
}

/// Adds unrolled blocks, where every weight has its own circuit.
void add_unrolled(Blocks& b) {
  const auto all = [](std::uint32_t pe, std::uint32_t simd, WindowStyle style = WindowStyle::kNone) {
    Folding made = folding(pe, simd, style);
    made.implementation = compiler::generators::Implementation::kUnrolled;
    return made;
  };
  const auto parallel = WindowStyle::kParallel;
  const auto dense = [&](std::uint32_t in, std::uint32_t out, ElementType weights, ElementType to, int form) {
    return b.convolution(window(1), in, out, 1, weights, to, form);
  };
  b.block("dense8", dense(12, 7, kInt8, kInt8, -1), {b.input(kInt8, {1, 1, 12})},
          {ElementType::Kind::kSigned, 24}, {1, 1, 7}, all(7, 12));
  b.block("dense_u8", dense(33, 5, kInt8, kInt8, 1), {b.input(kUint8, {1, 1, 33})}, kInt8, {1, 1, 5},
          all(5, 33));
  b.block("dense4", dense(16, 10, kInt4, kUint4, 2), {b.input(kUint4, {1, 1, 16})}, kUint4, {1, 1, 10},
          all(10, 16));
  b.block("one_input", dense(1, 3, kInt8, kInt8, 0), {b.input(kInt8, {1, 1, 1})}, kInt8, {1, 1, 3},
          all(3, 1));
  auto sparse = dense(20, 6, kInt8, kInt8, -1);
  for (std::size_t i = 0; i < sparse.weights.size(); ++i) {
    auto& w = sparse.weights.edit()[i];
    if (b.between(0, 3) != 0) w = 0;
    if (i / 20 == 2) w = 0;                                          // this output is only a bias
    if (i / 20 == 3) w = static_cast<std::int16_t>(w > 0 ? -w : w);  // no weight is positive
    if (i / 20 == 4) w = i % 20 == 7 ? -128 : 0;
  }
  b.block("sparse", sparse, {b.input(kInt8, {1, 1, 20})}, {ElementType::Kind::kSigned, 24}, {1, 1, 6},
          all(6, 20));
  b.block("u_window", b.convolution(window(3), 2, 4, 1, kInt8, kInt8, 0), {b.input(kUint8, {6, 7, 2})}, kInt8,
          {4, 5, 4}, all(4, 18, parallel));
  Folding two = all(6, 12, parallel);
  two.simd = 36;
  two.pixels = 2;
  b.block("u_two", b.convolution(window(3), 4, 6, 1, kInt4, kInt8, 1), {b.input(kInt8, {6, 8, 4})}, kInt8,
          {4, 6, 6}, two);
  Folding tap = all(5, 12, WindowStyle::kFolded);
  tap.window_lanes = 3;
  b.block("u_tap", b.convolution(window(2), 3, 5, 1, kInt8, kInt8, 0), {b.input(kInt8, {4, 4, 3})}, kInt8,
          {3, 3, 5}, tap);
  auto bits = b.convolution(window(3, 1, 1), 4, 3, 1, kBipolar, kBipolar, 2);
  bits.window.pad_value = -1;
  b.block("u_bits", bits, {b.input(kBipolar, {4, 5, 4})}, kBipolar, {4, 5, 3}, all(3, 36, parallel));
}

void add_others(Blocks& b) {
  b.block("max", kernels::MaxPool{window(2, 2)}, {b.input(kInt8, {5, 8, 6})}, kInt8, {2, 4, 6}, lanes(3));
  b.block("max_pair", kernels::MaxPool{window(2, 2)}, {b.input(kUint8, {4, 8, 3})}, kUint8, {2, 4, 3},
          lanes(3, 2));
  Folding overlapping = lanes(2);
  overlapping.window = WindowStyle::kFolded;
  overlapping.window_lanes = 2;
  b.block("max_over", kernels::MaxPool{window(3, 2, 1)}, {b.input(kInt8, {6, 6, 4})}, kInt8, {3, 3, 4},
          overlapping);
  const auto sum = [&](const Window& w, int form, std::uint32_t channels, ElementType out) {
    kernels::SumPool made;
    made.window = w;
    made.accumulator = {ElementType::Kind::kSigned, 24};
    made.requantise = b.requantise(form, channels, out);
    return made;
  };
  b.block("global", sum(window(4), 0, 6, kInt8), {b.input(kUint8, {4, 4, 6})}, kInt8, {1, 1, 6}, lanes(2));
  b.block("sum", sum(window(2, 2), 1, 4, kInt8), {b.input(kInt8, {4, 4, 4})}, kInt8, {2, 2, 4}, lanes(4));
  b.block("rescale", kernels::Rescale{b.requantise(0, 4, kInt8)}, {b.input(kUint8, {3, 4, 4})}, kInt8,
          {3, 4, 4}, lanes(4, 2));
  b.block("steps", kernels::Rescale{b.requantise(2, 4, kUint4)}, {b.input(kInt8, {3, 4, 4})}, kUint4,
          {3, 4, 4}, lanes(2));
  kernels::Lookup lookup;
  for (int i = 0; i < 256; ++i) lookup.table.push_back(static_cast<std::int16_t>(b.between(-128, 127)));
  b.block("lookup", lookup, {b.input(kInt8, {2, 3, 4})}, kInt8, {2, 3, 4}, lanes(4));
  kernels::Add add;
  add.multiplier_a = 1234;
  add.multiplier_b = -777;
  add.offset = 12345;
  add.shift = 11;
  add.lowest = -128;
  add.highest = 127;
  b.block("add", add, {b.input(kInt8, {2, 3, 4}), b.input(kUint8, {2, 3, 4})}, kInt8, {2, 3, 4}, lanes(2));
  kernels::Add table;
  for (int i = 0; i < 8 * 16; ++i) table.table.push_back(static_cast<std::int16_t>(b.between(-8, 7)));
  table.lowest = -8;
  table.highest = 7;
  b.block("add_table", table,
          {b.input({ElementType::Kind::kSigned, 3}, {2, 3, 4}), b.input(kUint4, {2, 3, 4})}, kInt4, {2, 3, 4},
          lanes(2));
  b.block("concat", kernels::Concat{},
          {b.input(kInt8, {2, 3, 4}), b.input(kInt8, {2, 3, 2}), b.input(kInt8, {2, 3, 6})}, kInt8,
          {2, 3, 12}, lanes(2));
  b.block("reshape", kernels::transposition({2, 1, 3, 4}, {1, 0, 2, 3}), {b.input(kInt8, {2, 3, 4})}, kInt8,
          {6, 1, 4}, lanes(4));
}

/// Adds a branch that joins the main path after two convolutions.
void add_branch(Blocks& b) {
  const TensorIndex from = b.input(kInt8, {6, 6, 4});
  const auto layer = [&] { return b.convolution(window(3, 1, 1), 4, 4, 1, kInt8, kInt8, 1); };
  const TensorIndex first =
      b.block("branch0", layer(), {from}, kInt8, {6, 6, 4}, folding(4, 12, WindowStyle::kParallel), true);
  const TensorIndex second =
      b.block("branch1", layer(), {first}, kInt8, {6, 6, 4}, folding(2, 18, WindowStyle::kParallel), true);
  kernels::Add plain;
  plain.lowest = -128;
  plain.highest = 127;
  b.block("branch", plain, {second, first}, kInt8, {6, 6, 4}, lanes(4));
}

/// Rearrangements of every kind that the compiler makes of ONNX operators.
void add_rearrangements(Blocks& b) {
  using kernels::Rearrange;
  const auto add = [&b](const char* name, Rearrange r, Shape from, Shape to, std::uint32_t simd,
                        ElementType type = kInt8) {
    b.block(name, std::move(r), {b.input(type, std::move(from))}, type, std::move(to), lanes(simd));
  };
  add("transpose", kernels::transposition({4, 6, 2}, {1, 0, 2}), {4, 6, 2}, {6, 4, 2}, 2);
  add("planes", kernels::transposition({3, 5, 4}, {2, 0, 1}), {3, 5, 4}, {4, 3, 5}, 1, kInt4);
  add("shuffle", {0, {15, 4, 2}, {8, 1, 4}}, {3, 5, 8}, {3, 5, 8}, 1, kUint8);
  add("channels", {2, {12, 4}, {8, 1}}, {3, 4, 8}, {3, 4, 4}, 2);
  add("rows", {24, {2, 24}, {24, 1}}, {4, 3, 8}, {2, 3, 8}, 8);
  add("odd_pixels", {4, {3, 4}, {8, 1}}, {1, 6, 4}, {1, 3, 4}, 4);
  add("nearest", {0, {3, 2, 4, 2, 6}, {24, 0, 6, 0, 1}}, {3, 4, 6}, {6, 8, 6}, 3);
  add("depth_to_space", kernels::transposition({3, 4, 2, 2, 3}, {0, 2, 1, 3, 4}), {3, 4, 12}, {6, 8, 3}, 6);
  add("broadcast", {0, {12, 6}, {0, 1}}, {1, 1, 6}, {3, 4, 6}, 6);
  add("reverse", {47, {48}, {-1}}, {3, 4, 4}, {3, 4, 4}, 1);
  kernels::SumPool border;  // a Pad
  border.window.pad_top = border.window.pad_right = 1;
  border.window.pad_left = 2;
  border.window.pad_value = -3;
  border.accumulator = kInt8;
  border.requantise.multiplier = {1};
  border.requantise.offset = {0};
  border.requantise.shift = {0};
  border.requantise.lowest = -128;
  border.requantise.highest = 127;
  Folding bordered = lanes(2);
  bordered.window = WindowStyle::kFolded;
  bordered.window_lanes = 2;
  b.block("border", border, {b.input(kInt8, {3, 4, 4})}, kInt8, {4, 7, 4}, bordered);
  add("signs", {0, {6, 2, 4}, {8, 1, 2}}, {2, 3, 8}, {2, 3, 8}, 1, kBipolar);
}

/// Squeeze-and-excite: a global pool and a layer make one factor for each channel, which is combined with every pixel.
/// The pixels wait in a FIFO until their frame's factors are there.
void add_excite(Blocks& b) {
  const auto layer = [&] { return b.convolution(window(1), 4, 4, 1, kInt8, kInt8, 0); };
  const TensorIndex from = b.input(kInt8, {6, 6, 4});
  const TensorIndex pixels = b.block("pixels", layer(), {from}, kInt8, {6, 6, 4}, folding(2, 4), true);
  kernels::SumPool sum;
  sum.window = window(6);
  sum.accumulator = {ElementType::Kind::kSigned, 24};
  sum.requantise = b.requantise(1, 4, kInt8);
  const TensorIndex pooled = b.block("squeeze", sum, {pixels}, kInt8, {1, 1, 4}, lanes(2), true);
  const TensorIndex factors = b.block("excite", layer(), {pooled}, kInt8, {1, 1, 4}, folding(1, 2), true);
  const TensorIndex all =
      b.block("repeat", kernels::Rearrange{0, {36, 4}, {0, 1}}, {factors}, kInt8, {6, 6, 4}, lanes(4), true);
  kernels::Add plain;
  plain.lowest = -128;
  plain.highest = 127;
  b.block("product", plain, {pixels, all}, kInt8, {6, 6, 4}, lanes(2));
}

Buffer random_frame(Blocks& b, const kernels::Tensor& tensor) {
  Buffer made(tensor.storage_bytes());
  for (auto& byte : made) {
    std::int64_t value = b.between(tensor.type.lowest(), tensor.type.highest());
    if (tensor.type.kind == ElementType::Kind::kBipolar) value = b.between(0, 1) == 0 ? -1 : 1;
    byte = static_cast<std::byte>(value);
  }
  return made;
}

Buffer packed(const kernels::Tensor& tensor, const Buffer& storage) {
  Buffer made(kernels::packed_bytes(tensor.type, tensor.elements()));
  kernels::pack(tensor.type, storage, made);
  return made;
}

/// Returns a program with the same blocks and sizes but other parameters: each output channel gets the next channel's
/// constants, and the next channel's weights in another order.
Program trained_again(Program program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto turn = [](auto& values, std::size_t each) {
    if (values.size() > each)
      std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(each), values.end());
  };
  const auto turn_step = [&](Requantise& step) {
    turn(step.multiplier, 1);
    turn(step.offset, 1);
    turn(step.shift, 1);
    turn(step.thresholds, static_cast<std::size_t>(step.highest - step.lowest));
  };
  for (auto& block : program.blocks) {
    if (auto* layer = std::get_if<kernels::Convolution>(&block.operation)) {
      const std::size_t each = layer->weights.size() / layer->out_channels;
      turn(layer->weights.edit(), each);
      turn(layer->bias, 1);
      for (std::uint32_t o = 0; o < layer->out_channels; ++o)
        std::shuffle(layer->weights.edit().begin() + static_cast<std::ptrdiff_t>(o * each),
                     layer->weights.edit().begin() + static_cast<std::ptrdiff_t>((o + 1) * each), random);
      if (layer->requantise) turn_step(*layer->requantise);
    }
    if (auto* pool = std::get_if<kernels::SumPool>(&block.operation)) turn_step(pool->requantise);
    if (auto* rescale = std::get_if<kernels::Rescale>(&block.operation)) turn_step(rescale->requantise);
    if (auto* lookup = std::get_if<kernels::Lookup>(&block.operation)) turn(lookup->table, 1);
  }
  return program;
}

/// Writes the partition's files below `directory` as `compile` does, and returns what the emitter made in `written`.
void write(const Design& design, const Program& program, const std::filesystem::path& directory,
           compiler::emit::Rtl& written) {
  std::vector<runtime::plan::ImagePort> ports;
  const auto add = [&](const auto& from, runtime::plan::PortKind kind) {
    for (const auto& port : from) {
      const auto& stream = design.netlist.streams[port.stream];
      ports.push_back({port.name, kind, "", 0, 0, port.type, stream.lanes * stream.beats});
    }
  };
  add(design.inputs, runtime::plan::PortKind::kIngress);
  add(design.outputs, runtime::plan::PortKind::kEgress);
  compiler::emit::RtlOptions options;
  options.device.clock_mhz = 156.25;
  options.device.name = "none";
  options.generator = "a test";
  const auto rtl = compiler::emit::emit_rtl(design, program, ports, options);
  ASSERT_TRUE(rtl.ok()) << rtl.error().message();
  for (const auto& [path, content] : rtl->files) {
    const auto file = directory / "rtl" / design.partition / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }
  written = *rtl;
}

class GeneratedBlocks : public testing::Test {
 protected:
  void run(Blocks& blocks, double stall) {
    simulate(blocks, blocks.program(), blocks.program(), blocks.foldings(), stall);
  }

  /// Simulates hardware that is generated for the program, with the parameters of trained_again() loaded into it.
  void run_loaded(Blocks& blocks, double stall, kernels::Placement placement = kernels::Placement::kLoaded) {
    Program first = blocks.program();
    const Status placed = compiler::place_parameters(first, placement);
    ASSERT_TRUE(placed.ok()) << placed.error().message();
    auto foldings = blocks.foldings();
    for (std::size_t b = 0; b < foldings.size(); ++b) foldings[b].weights = first.blocks[b].placement;
    const Program second = trained_again(first, kSeed);
    ASSERT_NE(first, second);
    simulate(blocks, first, second, foldings, stall);
  }

 private:
  static constexpr std::uint64_t kFrames = 10;

  void simulate(Blocks& blocks, const Program& made_for, const Program& program,
                const std::vector<Folding>& foldings, double stall) {
    const auto catalog = compiler::generators::load_catalog();
    ASSERT_TRUE(catalog.ok());
    ASSERT_EQ(kernels::validate(program), "");
    const auto design = compiler::generators::assemble(*catalog, made_for, foldings);
    ASSERT_TRUE(design.ok()) << design.error().message();
    const TemporaryDirectory directory("generated_blocks"), elsewhere("generated_again");
    compiler::emit::Rtl made, again;
    write(*design, made_for, directory.path(), made);
    const auto redesigned = compiler::generators::assemble(*catalog, program, foldings);
    ASSERT_TRUE(redesigned.ok()) << redesigned.error().message();
    write(*redesigned, program, elsewhere.path(), again);
    ASSERT_EQ(made.files, again.files) << "the SystemVerilog depends on what is loaded";
    const auto source = runtime::rtl::read_source(directory.path(), design->partition);
    ASSERT_TRUE(source.ok()) << source.error().message();
    const auto cache = Cache::open();
    ASSERT_TRUE(cache.ok()) << cache.error().message();
    const auto tools = runtime::rtl::Toolchain::find();
    ASSERT_TRUE(tools.ok()) << tools.error().message();
    const auto entry = runtime::rtl::build_simulation(*cache, *tools, *source, {});
    ASSERT_TRUE(entry.ok()) << entry.error().message();
    compare(blocks, program, *design, *entry, again, stall);
  }

  void compare(Blocks& blocks, const Program& program, const Design& design,
               const std::filesystem::path& entry, const compiler::emit::Rtl& constants, double stall) {
    const std::vector<std::byte>& load = constants.load;
    runtime::rtl::System system({stall, kSeed});
    auto simulation = runtime::rtl::Simulation::open(entry, kSeed);
    ASSERT_TRUE(simulation.ok()) << simulation.error().message();
    if (!load.empty()) {
      EXPECT_EQ((*simulation)->load_constants(std::span(load).first(8)).error().code(), ErrorCode::kCorrupt);
      const Status loaded = (*simulation)->load_constants(load);
      ASSERT_TRUE(loaded.ok()) << loaded.error().message();
      const std::span<const std::byte> weights = constants.streamed;
      if (!weights.empty()) {
        EXPECT_EQ((*simulation)->hold_weights(weights.first(64)).error().code(), ErrorCode::kCorrupt);
      }
      const Status held = (*simulation)->hold_weights(weights);
      ASSERT_TRUE(held.ok()) << held.error().message();
    }
    const std::size_t part = system.add_partition("part0", std::move(*simulation), 156.25);
    std::vector<std::vector<Buffer>> wanted;
    for (std::uint64_t frame = 0; frame < kFrames; ++frame) {
      std::vector<Buffer> inputs;
      for (std::size_t i = 0; i < program.inputs.size(); ++i) {
        inputs.push_back(random_frame(blocks, program.tensors[program.inputs[i]]));
        system.feed({part, i}, packed(program.tensors[program.inputs[i]], inputs.back()));
      }
      wanted.push_back(kernels::reference::run(program, inputs));
    }
    std::vector<int> wrong(program.outputs.size());
    const auto status = system.run(kFrames, [&](auto end, std::uint64_t frame, const Buffer& got) {
      if (frame < kFrames &&
          got != packed(program.tensors[program.outputs[end.port]], wanted[frame][end.port]))
        ++wrong[end.port];
    });
    ASSERT_TRUE(status.ok()) << status.error().message();
    ASSERT_FALSE(system.standstill()) << system.standstill()->message;
    for (std::size_t i = 0; i < wrong.size(); ++i)
      EXPECT_EQ(wrong[i], 0) << "frames of output " << i << " (" << program.tensors[program.outputs[i]].name
                             << ") that differ";
    if (stall == 0) compare_cycles(system, part, design);
  }

  static void compare_cycles(const runtime::rtl::System& system, std::size_t part, const Design& design) {
    std::vector<std::uint64_t> last(kFrames);
    std::uint64_t first_in = ~std::uint64_t{0};
    for (std::size_t i = 0; i < design.inputs.size(); ++i)
      first_in = std::min(first_in, system.input_passages({part, i}).front().first);
    for (std::size_t i = 0; i < design.outputs.size(); ++i)
      for (std::size_t f = 0; f < kFrames; ++f)
        last[f] = std::max(last[f], system.output_passages({part, i})[f].last);
    EXPECT_EQ(last[kFrames - 1] - last[kFrames - 2], design.interval_cycles);
    EXPECT_EQ(last[0] - first_in, design.latency_cycles);
    for (std::size_t i = 0; i < design.fifos.size(); ++i) {
      const auto& fifo = design.fifos[i];
      const std::string& name = design.netlist.units[fifo.unit].instance.name;
      EXPECT_GE(system.simulation(part).high_water(i), fifo.high_water) << name;
      EXPECT_LE(fifo.depth, std::max<std::uint64_t>(2, 2 * system.simulation(part).high_water(i))) << name;
    }
  }
};

TEST_F(GeneratedBlocks, ConvolutionsOfEveryKindEqualTheReferenceAndTakeThePredictedCycles) {
  Blocks blocks;
  add_convolutions(blocks);
  run(blocks, 0);
}

TEST_F(GeneratedBlocks, ConvolutionsEqualTheReferenceUnderStalls) {
  Blocks blocks;
  add_convolutions(blocks);
  run(blocks, 0.3);
}

TEST_F(GeneratedBlocks, ConvolutionsOfInputsWithFewRowsEqualTheReferenceWithEveryWindowStyle) {
  Blocks blocks;
  add_low(blocks);
  ASSERT_FALSE(HasFatalFailure());
  run(blocks, 0);
  run(blocks, 0.3);
}

TEST_F(GeneratedBlocks, UnrolledBlocksEqualTheReferenceAndTakeThePredictedCycles) {
  Blocks blocks;
  add_unrolled(blocks);
  run(blocks, 0);
}

TEST_F(GeneratedBlocks, UnrolledBlocksEqualTheReferenceUnderStalls) {
  Blocks blocks;
  add_unrolled(blocks);
  run(blocks, 0.3);
}

TEST_F(GeneratedBlocks, PoolingAndElementwiseBlocksAndBranchesEqualTheReferenceAndTakeThePredictedCycles) {
  Blocks blocks;
  add_others(blocks);
  add_branch(blocks);
  run(blocks, 0);
}

TEST_F(GeneratedBlocks, PoolingAndElementwiseBlocksAndBranchesEqualTheReferenceUnderStalls) {
  Blocks blocks;
  add_others(blocks);
  add_branch(blocks);
  run(blocks, 0.3);
}

TEST_F(GeneratedBlocks, RearrangedTensorsEqualTheReferenceAndTakeThePredictedCycles) {
  Blocks blocks;
  add_rearrangements(blocks);
  run(blocks, 0);
}

TEST_F(GeneratedBlocks, RearrangedTensorsEqualTheReferenceUnderStalls) {
  Blocks blocks;
  add_rearrangements(blocks);
  run(blocks, 0.3);
}

TEST_F(GeneratedBlocks, SqueezeAndExciteEqualsTheReferenceAndTakesThePredictedCycles) {
  Blocks blocks;
  add_excite(blocks);
  run(blocks, 0);
}

TEST_F(GeneratedBlocks, SqueezeAndExciteEqualsTheReferenceUnderStalls) {
  Blocks blocks;
  add_excite(blocks);
  run(blocks, 0.3);
}

TEST_F(GeneratedBlocks, ConvolutionsComputeWithLoadedConstantsInThePredictedCycles) {
  Blocks blocks;
  add_convolutions(blocks);
  run_loaded(blocks, 0);
}

TEST_F(GeneratedBlocks, ConvolutionsComputeWithLoadedConstantsUnderStalls) {
  Blocks blocks;
  add_convolutions(blocks);
  run_loaded(blocks, 0.3);
}

TEST_F(GeneratedBlocks, ConvolutionsReadTheirWeightsFromMemoryInThePredictedCycles) {
  Blocks blocks;
  add_streamed(blocks);
  run_loaded(blocks, 0, kernels::Placement::kStreamed);
}

TEST_F(GeneratedBlocks, ConvolutionsReadTheirWeightsFromAMemoryThatStalls) {
  Blocks blocks;
  add_streamed(blocks);
  run_loaded(blocks, 0.3, kernels::Placement::kStreamed);
}

TEST_F(GeneratedBlocks, PoolingAndElementwiseBlocksComputeWithLoadedConstants) {
  Blocks blocks;
  add_others(blocks);
  add_branch(blocks);
  run_loaded(blocks, 0);
  run_loaded(blocks, 0.3);
}

}  // namespace
}  // namespace millrace::test_generated_blocks
