#include "tests/support/programs.hpp"

#include <random>
#include <stdexcept>
#include <variant>

#include "kernels/program/rearrange.hpp"

namespace millrace::tests {
namespace {

using namespace kernels;

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};
constexpr ElementType kUint8{ElementType::Kind::kUnsigned, 8};
constexpr ElementType kInt24{ElementType::Kind::kSigned, 24};
constexpr ElementType kFloat{ElementType::Kind::kFloat32, 32};

// The largest weight of a convolution. The first convolution uses kQuarter, so that values in later layers stay small:
// a value that is clamped at 127 would hide a change.
constexpr std::int16_t kWhole = 64, kQuarter = 16;

class Builder {
 public:
  explicit Builder(std::string name, std::uint32_t seed = 1) : random_(seed) {
    program_.name = std::move(name);
  }

  TensorIndex tensor(const std::string& name, ElementType type, std::vector<std::uint32_t> shape) {
    Tensor made;
    made.name = name;
    made.type = type;
    made.shape = std::move(shape);
    if (type.is_integer()) made.scale = {0.5F};
    program_.tensors.push_back(made);
    return static_cast<TensorIndex>(program_.tensors.size() - 1);
  }

  TensorIndex input(const std::string& name, ElementType type, std::vector<std::uint32_t> shape) {
    program_.inputs.push_back(tensor(name, type, std::move(shape)));
    return program_.inputs.back();
  }

  TensorIndex block(const std::string& name, Operation operation, std::vector<TensorIndex> inputs,
                    ElementType type, std::vector<std::uint32_t> shape, const std::string& output = {}) {
    const TensorIndex made = tensor(output.empty() ? name + "_out" : output, type, std::move(shape));
    Block added;
    added.name = name;
    added.nodes = {"node/" + name};
    added.inputs = std::move(inputs);
    added.outputs = {made};
    added.operation = std::move(operation);
    program_.blocks.push_back(std::move(added));
    return made;
  }

  /// Adds a padded 3x3 convolution, which changes only the number of channels, not height or width. Sums are divided by
  /// 64. Every output weighs the input at its own position with `through` and neighbours with small random weights. If
  /// `through` is kWhole, an input error of one makes an output wrong by one, through any number of layers.
  TensorIndex convolution(const std::string& name, TensorIndex from, std::uint32_t channels,
                          std::int16_t through = kWhole) {
    const std::vector<std::uint32_t> shape = program_.tensors[from].shape;
    Convolution made;
    made.window.kernel_h = made.window.kernel_w = 3;
    made.window.pad_top = made.window.pad_left = made.window.pad_bottom = made.window.pad_right = 1;
    made.out_channels = channels;
    made.weight_type = kInt8;
    made.accumulator = kInt24;
    auto& weights = made.weights.edit();
    for (std::uint32_t i = 0; i < channels * 9 * shape[2]; ++i)
      weights.push_back(static_cast<std::int16_t>(static_cast<int>(random_() % 9) - 4));
    for (std::uint32_t i = 0; i < channels; ++i) weights[(i * 9 + 4) * shape[2] + i % shape[2]] = through;
    for (std::uint32_t i = 0; i < channels; ++i)
      made.bias.push_back(static_cast<std::int32_t>(random_() % 200) - 100);
    made.requantise = requantise(1, 32, 6);
    return block(name, made, {from}, kInt8, {shape[0], shape[1], channels});
  }

  static Requantise requantise(std::int32_t multiplier, std::int64_t offset, std::uint8_t shift) {
    Requantise made;
    made.multiplier = {multiplier};
    made.offset = {offset};
    made.shift = {shift};
    made.lowest = -128;
    made.highest = 127;
    return made;
  }

  const std::vector<std::uint32_t>& shape(TensorIndex index) const { return program_.tensors[index].shape; }

  Program finish(TensorIndex output) {
    program_.outputs = {output};
    return std::move(program_);
  }

 private:
  Program program_;
  std::mt19937 random_;
};

Window window2() {
  Window made;
  made.kernel_h = made.kernel_w = made.stride_h = made.stride_w = 2;
  return made;
}

Add plain_add() {
  Add made;
  made.lowest = -128;
  made.highest = 127;
  return made;
}

Program layered(const std::string& name, std::uint32_t layers, std::uint32_t channels, std::uint32_t seed,
                bool skip) {
  Builder build(name, seed);
  TensorIndex now =
      build.block("quantise", Quantise{{0.5F}, 0}, {build.input("x", kFloat, {8, 8, 2})}, kInt8, {8, 8, 2});
  TensorIndex first = 0;
  for (std::uint32_t i = 0; i < layers; ++i) {
    now = build.convolution("conv" + std::to_string(i), now, channels, i == 0 ? kQuarter : kWhole);
    if (i == 0) now = first = build.block("pool0", MaxPool{window2()}, {now}, kInt8, {4, 4, channels});
  }
  if (skip) now = build.block("add", plain_add(), {now, first}, kInt8, build.shape(now));
  return build.finish(build.block("dequantise", Dequantise{{0.5F}, 0}, {now}, kFloat, build.shape(now), "y"));
}

void retrain(Convolution& convolution) {
  auto& weights = convolution.weights.edit();
  for (std::size_t i = 0; i < weights.size(); i += 3) weights[i] = static_cast<std::int16_t>(1 - weights[i]);
}

}  // namespace

Program chain_program(std::uint32_t layers, std::uint32_t channels, std::uint32_t seed) {
  return layered("chain", layers, channels, seed, false);
}

Program skip_program(std::uint32_t layers, std::uint32_t channels, std::uint32_t seed) {
  return layered("skip", layers, channels, seed, true);
}

Program branch_program(std::uint32_t channels, std::uint32_t seed) {
  Builder build("branch", seed);
  const TensorIndex in =
      build.block("quantise", Quantise{{0.5F}, 0}, {build.input("x", kFloat, {8, 8, 2})}, kInt8, {8, 8, 2});
  const TensorIndex fork = build.convolution("conv0", in, channels, kQuarter);
  TensorIndex left = build.convolution("conv1", fork, channels);
  left = build.convolution("conv2", left, channels);
  const TensorIndex right = build.convolution("conv3", fork, channels);
  TensorIndex now = build.block("add", plain_add(), {left, right}, kInt8, build.shape(right));
  now = build.convolution("conv4", now, channels);
  return build.finish(build.block("dequantise", Dequantise{{0.5F}, 0}, {now}, kFloat, build.shape(now), "y"));
}

Program interrupted_program() {
  Builder build("interrupted");
  const std::vector<std::uint32_t> shape{8, 8, 2};
  TensorIndex now =
      build.block("quantise", Quantise{{0.5F}, 0}, {build.input("x", kFloat, shape)}, kInt8, shape);
  now = build.convolution("conv0", now, 2);
  now = build.block("dequantise0", Dequantise{{0.125F}, 0}, {now}, kFloat, shape);
  now = build.block("softmax", Softmax{}, {now}, kFloat, shape);
  now = build.block("quantise1", Quantise{{0.0078125F}, 0}, {now}, kInt8, shape);
  now = build.convolution("conv1", now, 2);
  return build.finish(build.block("dequantise1", Dequantise{{0.5F}, 0}, {now}, kFloat, shape, "y"));
}

Program with_other_weights(Program program, std::size_t layer) {
  for (auto& block : program.blocks) {
    auto* const convolution = std::get_if<Convolution>(&block.operation);
    if (convolution == nullptr || layer-- != 0) continue;
    retrain(*convolution);
    return program;
  }
  throw std::runtime_error("the program has no such convolution");
}

Program trained_again(Program program) {
  for (auto& block : program.blocks)
    if (auto* const convolution = std::get_if<Convolution>(&block.operation)) retrain(*convolution);
  return program;
}

Program every_operation_program() {
  Builder build("every_operation");
  const TensorIndex x = build.input("x", kFloat, {2, 4, 4});
  const TensorIndex q = build.block("quantise", Quantise{{0.25F}, 3}, {x}, kInt8, {2, 4, 4});
  const TensorIndex p = build.block("permute", transposition({2, 4, 4}, {1, 2, 0}), {q}, kInt8, {4, 4, 2});
  const TensorIndex c = build.convolution("conv", p, 2);
  const TensorIndex a = build.block("add", plain_add(), {c, p}, kInt8, {4, 4, 2});
  const TensorIndex m = build.block("max", MaxPool{window2()}, {a}, kInt8, {2, 2, 2});
  SumPool sum;
  sum.window = window2();
  sum.accumulator = kInt24;
  sum.requantise = Builder::requantise(1, 0, 2);
  sum.requantise.form = Requantise::Form::kMultiplyShiftHalfEven;
  sum.requantise.zero_point = -3;
  const TensorIndex s = build.block("sum", sum, {a}, kInt8, {2, 2, 2});
  const TensorIndex j = build.block("join", Concat{}, {m, s}, kInt8, {2, 2, 4});
  Rescale rescale;
  rescale.requantise.form = Requantise::Form::kThresholds;
  rescale.requantise.lowest = 0;
  rescale.requantise.highest = 3;
  rescale.requantise.thresholds = {-50, 0, 50};
  const TensorIndex r = build.block("rescale", rescale, {j}, kUint8, {2, 2, 4});
  Lookup lookup;
  for (int i = 0; i < 256; ++i) lookup.table.push_back(static_cast<std::int16_t>(127 - i));
  const TensorIndex l = build.block("lookup", lookup, {r}, kInt8, {2, 2, 4});
  const TensorIndex b = build.block("reverse", Rearrange{15, {16}, {-1}}, {l}, kInt8, {2, 2, 4});
  Convolution wide;
  wide.window.kernel_h = wide.window.kernel_w = 2;
  wide.out_channels = 3;
  wide.weight_type = {ElementType::Kind::kSigned, 12};
  wide.accumulator = {ElementType::Kind::kSigned, 32};
  for (int i = 0; i < 3 * 16; ++i) wide.weights.edit().push_back(static_cast<std::int16_t>(i * 61 - 1400));
  const TensorIndex w = build.block("wide", wide, {b}, {ElementType::Kind::kSigned, 32}, {1, 1, 3});
  const TensorIndex d = build.block("dequantise", Dequantise{{0.125F}, 0}, {w}, kFloat, {1, 1, 3});
  return build.finish(build.block("softmax", Softmax{}, {d}, kFloat, {1, 1, 3}, "y"));
}

}  // namespace millrace::tests
