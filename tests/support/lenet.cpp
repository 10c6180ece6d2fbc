#include "tests/support/lenet.hpp"
#include "tests/paths/paths.hpp"

#include <fstream>
#include <iterator>
#include <random>

namespace millrace::tests {

using namespace kernels;

namespace {

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};
constexpr ElementType kFloat{ElementType::Kind::kFloat32, 32};

class Builder {
 public:
  Builder() { program_.name = "lenet"; }

  TensorIndex tensor(const std::string& name, ElementType type, std::vector<std::uint32_t> shape) {
    Tensor made;
    made.name = name;
    made.type = type;
    made.shape = std::move(shape);
    if (type.is_integer()) made.scale = {0.05F};
    program_.tensors.push_back(made);
    return static_cast<TensorIndex>(program_.tensors.size() - 1);
  }

  TensorIndex block(const std::string& name, Operation operation, TensorIndex input, ElementType type,
                    std::vector<std::uint32_t> shape, const std::string& output = {}) {
    Block added;
    added.name = name;
    added.nodes = {name};
    added.inputs = {input};
    added.operation = std::move(operation);
    added.outputs = {tensor(output.empty() ? name + "_out" : output, type, std::move(shape))};
    program_.blocks.push_back(added);
    return added.outputs[0];
  }

  TensorIndex convolution(const std::string& name, TensorIndex input, std::uint32_t channels,
                          std::uint32_t kernel, std::uint32_t pad, bool relu) {
    const std::vector<std::uint32_t> shape = program_.tensors[input].shape;
    Convolution made;
    made.window.kernel_h = made.window.kernel_w = kernel;
    made.window.pad_top = made.window.pad_left = made.window.pad_bottom = made.window.pad_right = pad;
    made.out_channels = channels;
    made.weight_type = kInt8;
    made.accumulator = ElementType{ElementType::Kind::kSigned, 26};
    std::uniform_int_distribution<int> weight(-127, 127), bias(-2000, 2000);
    for (std::uint32_t i = 0; i < channels * kernel * kernel * shape[2]; ++i) {
      made.weights.edit().push_back(static_cast<std::int16_t>(weight(random_)));
    }
    for (std::uint32_t i = 0; i < channels; ++i) made.bias.push_back(bias(random_));
    Requantise to;
    to.multiplier = {1};
    to.offset = {512};
    to.shift = {10};
    to.lowest = relu ? 0 : -128;
    to.highest = 127;
    made.requantise = to;
    const std::uint32_t height = shape[0] + 2 * pad - kernel + 1, width = shape[1] + 2 * pad - kernel + 1;
    return block(name, made, input, kInt8, {height, width, channels});
  }

  TensorIndex pool(const std::string& name, TensorIndex input) {
    const std::vector<std::uint32_t> shape = program_.tensors[input].shape;
    MaxPool made;
    made.window.kernel_h = made.window.kernel_w = made.window.stride_h = made.window.stride_w = 2;
    return block(name, made, input, kInt8, {shape[0] / 2, shape[1] / 2, shape[2]});
  }

  Program finish(TensorIndex input, TensorIndex output) {
    program_.inputs = {input};
    program_.outputs = {output};
    return std::move(program_);
  }

 private:
  Program program_;
  std::mt19937 random_{5};
};

}  // namespace

Program lenet_program() {
  Builder build;
  const TensorIndex x = build.tensor("x", kFloat, {28, 28, 1});
  TensorIndex now = build.block("quantise", Quantise{{0.01F}, 0}, x, kInt8, {28, 28, 1});
  now = build.pool("pool1", build.convolution("conv1", now, 6, 5, 2, true));
  now = build.pool("pool2", build.convolution("conv2", now, 16, 5, 0, true));
  now = build.convolution("fc1", now, 120, 5, 0, true);
  now = build.convolution("fc2", now, 84, 1, 0, true);
  now = build.convolution("fc3", now, 10, 1, 0, false);
  return build.finish(x, build.block("dequantise", Dequantise{{0.05F}, 0}, now, kFloat, {1, 1, 10}, "y"));
}

std::string lenet_trained_again() {
  std::ifstream in(std::string(tests::source_dir()) + "/tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx",
                   std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  // Find the weights: no other tensor has 48,000 bytes in TensorProto.raw_data (field 9).
  constexpr std::size_t kWeights = 48'000;
  const std::string mark("\x4a\x80\xf7\x02", 4);
  const auto at = bytes.find(mark);
  if (at == std::string::npos || bytes.find(mark, at + 1) != std::string::npos) return {};
  for (std::size_t i = 0; i < kWeights; i += 7) {
    char& weight = bytes[at + mark.size() + i];
    weight = static_cast<char>(-(static_cast<signed char>(weight) / 2));
  }
  return bytes;
}

}  // namespace millrace::tests
