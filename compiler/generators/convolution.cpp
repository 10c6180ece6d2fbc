#include "compiler/generators/convolution.hpp"

#include <algorithm>

namespace millrace::compiler::generators {
namespace {

using kernels::Convolution;
using kernels::ElementType;

constexpr unsigned kMostOperandBits = 8;
constexpr unsigned kMostWeightBits = 9;        // 8 bits less a zero point
constexpr std::uint64_t kMostUnrolled = 8192;  // more nonzero weights would take the FPGA tools minutes
constexpr std::uint64_t kLeastStreamedBytes = 4096;

}  // namespace

/// Only the weights of large matrices are read from the card's memory ("streamed"). A small matrix fits into the FPGA;
/// streaming would read it again for each window.
bool can_stream(const kernels::Block& block) {
  const auto* layer = std::get_if<Convolution>(&block.operation);
  return layer != nullptr && layer->groups == 1 && layer->requantise.has_value() &&
         layer->weights.size() * layer->weight_type.bits >= 8 * kLeastStreamedBytes;
}

ConvolutionBlock::ConvolutionBlock(const kernels::Program& program, std::uint32_t block)
    : Generator(program, block),
      layer_(std::get<Convolution>(block_.operation)),
      in_(image(input())),
      out_(image(output())) {
  const auto& w = layer_.window;
  const bool unpadded = w.pad_top == 0 && w.pad_left == 0 && w.pad_bottom == 0 && w.pad_right == 0;
  taps_ = w.kernel_h * w.kernel_w;
  depthwise_ = layer_.groups > 1 && layer_.groups == in_.c && layer_.out_channels == in_.c;
  const bool pixel = taps_ == 1 && w.stride_h == 1 && w.stride_w == 1 && unpadded;
  const bool whole = out_.h == 1 && out_.w == 1 && unpadded && w.dilation_h == 1 && w.dilation_w == 1 &&
                     w.kernel_h == in_.h && w.kernel_w == in_.w;
  windowless_ = pixel || whole;
  vectors_ = std::uint64_t{out_.h} * out_.w;
  if (layer_.requantise)
    step_.emplace(*layer_.requantise, output().type, out_.c, layer_.bias, loaded(), streams());
  read_weights();
  collect_constants();
}

std::int64_t ConvolutionBlock::weight(const Folding& folding, std::uint32_t o, std::uint32_t column) const {
  const std::uint32_t channels = in_.c / layer_.groups;  // channels of one group of the convolution
  if (depthwise_) return layer_.weights[o * taps_ + column];
  if (matrices(folding) > 1) return layer_.weights[std::size_t{o} * taps_ * channels + column];
  const std::uint32_t tap = column / in_.c, c = column % in_.c;
  if (c / channels != o / (out_.c / layer_.groups)) return 0;
  return layer_.weights[(std::size_t{o} * taps_ + tap) * channels + c % channels];
}

namespace {

/// Statistics of a list of weights: the sum of the positive ones (`above`) and of the negative ones (`below`), the
/// smallest (at most 0), the largest (at least 0), and the number of zeros.
struct Sums {
  std::int64_t above = 0, below = 0, least = 0, most = 0;
  std::uint64_t zeros = 0;
};

/// Planning reads all weights of a net many times. Each loop has no branches and uses narrow types, so that compilers
/// vectorise it. The sum of a chunk fits into 32 bits.
Sums sums_of(const std::int16_t* weights, std::size_t count) {
  constexpr std::size_t kChunk = 8192;
  Sums sums;
  for (std::size_t begin = 0; begin < count; begin += kChunk) {
    const std::int16_t* const from = weights + begin;
    const std::size_t here = std::min(count - begin, kChunk);
    std::int32_t above = 0, below = 0, zeros = 0;
    std::int16_t least = 0, most = 0;
    for (std::size_t i = 0; i < here; ++i) least = from[i] < least ? from[i] : least;
    for (std::size_t i = 0; i < here; ++i) most = from[i] > most ? from[i] : most;
    for (std::size_t i = 0; i < here; ++i) zeros += static_cast<std::int32_t>(from[i] == 0);
    for (std::size_t i = 0; i < here; ++i) {
      const std::int32_t w = from[i], negative = w & (w >> 31);
      above += w - negative;
      below += negative;
    }
    sums.above += above;
    sums.below += below;
    sums.zeros += static_cast<std::uint64_t>(zeros);
    sums.least = std::min<std::int64_t>(sums.least, least);
    sums.most = std::max<std::int64_t>(sums.most, most);
  }
  return sums;
}

}  // namespace

/// Computes the statistics of the layer's weights. Sums get the width that these weights need for any input. If other
/// weights will be loaded, sums get the width of the accumulator's type.
void ConvolutionBlock::read_weights() {
  any_bias_ = std::any_of(layer_.bias.begin(), layer_.bias.end(), [](auto b) { return b != 0; });
  const std::int64_t most_negative = layer_.weight_type.lowest();
  const std::int64_t low_in = input().type.lowest(), high_in = input().type.highest();
  const std::size_t each = layer_.weights.size() / std::max<std::size_t>(out_.c, 1);
  std::int64_t lowest = 0, highest = 0;
  for (std::uint32_t o = 0; o < out_.c; ++o) {
    const std::int64_t bias = bias_in_sum() ? layer_.bias[o] : 0;
    const std::int16_t* const weights = layer_.weights.data() + o * each;
    const Sums sums = sums_of(weights, each);
    has_most_negative_ =
        has_most_negative_ || (most_negative == 0 ? sums.zeros > 0 : sums.least == most_negative);
    nonzero_ += each - sums.zeros;
    largest_ = std::max({largest_, -sums.least, sums.most});
    lowest = std::min(lowest, bias + sums.above * low_in + sums.below * high_in);
    highest = std::max(highest, bias + sums.above * high_in + sums.below * low_in);
  }
  acc_bits_ = step_ ? signed_bits(lowest, highest) : output().type.bits;
  if (!loaded()) return;
  any_bias_ = !layer_.bias.empty();
  acc_bits_ = layer_.accumulator.bits;
}

/// Collects the matrix of constants if the layer is small enough to be unrolled.
void ConvolutionBlock::collect_constants() {
  if (loaded() || layer_.groups > 1 || nonzero_ > kMostUnrolled || largest_ > kLargestConstant) return;
  const std::uint32_t inputs = taps_ * in_.c;
  if (std::uint64_t{out_.c} * inputs > 4 * kMostUnrolled) return;
  ConstantMatrix matrix{out_.c, inputs, input().type, acc_bits_, {}, {}};
  matrix.weights.assign(layer_.weights.begin(), layer_.weights.end());
  if (bias_in_sum()) matrix.biases.assign(layer_.bias.begin(), layer_.bias.end());
  constants_ = std::move(matrix);
}

std::uint32_t ConvolutionBlock::windows(const Folding& folding) const {
  if (folding.window == WindowStyle::kFolded) return 1;
  const std::uint32_t stride = folding.window == WindowStyle::kParallel ? layer_.window.stride_w : 1;
  return folding.pixels > stride ? folding.pixels / stride : 1;
}

Status ConvolutionBlock::check_unrolled(const Folding& folding) const {
  if (layer_.groups > 1)
    return refuse("grouped convolutions cannot be unrolled; choose the folded generator");
  if (!unrolls())
    return refuse("unrolled, the layer would have " + std::to_string(nonzero_) + " constants of up to " +
                  std::to_string(largest_) + "; at most " + std::to_string(kMostUnrolled) +
                  " nonzero constants of up to " + std::to_string(kLargestConstant) +
                  " can be unrolled; "
                  "choose the folded generator");
  if (folding.pe != out_.c || folding.simd != constants_->columns)
    return refuse("unrolled, PE is " + std::to_string(out_.c) + " and SIMD " +
                  std::to_string(constants_->columns));
  return {};
}

Status ConvolutionBlock::check_window(const Folding& folding) const {
  const auto& w = layer_.window;
  const std::string pixels = std::to_string(folding.pixels) + " pixels a cycle";
  if (folding.window == WindowStyle::kNone) {
    if (!windowless_)
      return refuse(
          "the windows of this layer overlap or leave gaps; choose a sliding window (folded or parallel)");
    if (folding.pixels > 1 && (taps_ > 1 || in_.w % folding.pixels != 0 || layer_.groups > 1))
      return refuse(pixels + " do not divide a row of " + std::to_string(in_.w) + "; choose a divisor, or 1");
    return {};
  }
  if (folding.window == WindowStyle::kFolded) {
    if (in_.c % folding.window_lanes != 0)
      return refuse(std::to_string(folding.window_lanes) + " window lanes do not divide " +
                    std::to_string(in_.c) + " channels; choose a divisor");
    if (matrices(folding) > 1 && folding.window_lanes != in_.c)
      return refuse("a grouped convolution needs as many window lanes as input channels; choose " +
                    std::to_string(in_.c));
    if (folding.pixels != 1)
      return refuse("a folded window processes one pixel at a time; choose a parallel window");
    return {};
  }
  const std::uint32_t p = folding.pixels;
  const bool fits = !depthwise_ && in_.w % p == 0 && (p % w.stride_w == 0 || w.stride_w % p == 0) &&
                    in_.w / p >= 2 && out_.w % windows(folding) == 0 &&
                    w.pad_top < reach(w.kernel_h, w.dilation_h) &&
                    w.pad_left < reach(w.kernel_w, w.dilation_w);
  if (!fits)
    return refuse("a parallel window with " + pixels + " does not suit a width of " + std::to_string(in_.w) +
                  ", stride " + std::to_string(w.stride_w) + " and an output width of " +
                  std::to_string(out_.w) + "; choose a folded window, or fewer pixels per cycle");
  return {};
}

Status ConvolutionBlock::check(const Folding& folding) const {
  MILLRACE_TRY(check_window(folding));
  if (folding.implementation == Implementation::kUnrolled) MILLRACE_TRY(check_unrolled(folding));
  if (streams() && windows(folding) > 1)
    return refuse(
        "with streamed weights, only one window is computed at a time; choose fewer pixels per cycle");
  const std::string of_a_group = matrices(folding) > 1 ? " of a group" : "";
  if (rows(folding) % folding.pe != 0)
    return refuse("PE " + std::to_string(folding.pe) + " does not divide " + std::to_string(rows(folding)) +
                  " output channels" + of_a_group + "; choose a divisor");
  if (depthwise_ ? folding.simd != 1 : columns(folding) % folding.simd != 0)
    return refuse("SIMD " + std::to_string(folding.simd) +
                  (depthwise_ ? ": a depthwise convolution is folded by PE only; choose SIMD 1"
                              : " does not divide " + std::to_string(columns(folding)) +
                                    " inputs of an output; choose a divisor"));
  if (depthwise_ && in_.c / folding.pe > kMostPartialResults)
    return refuse("PE " + std::to_string(folding.pe) + " leaves " + std::to_string(in_.c / folding.pe) +
                  " partial sums, but a memory in LUTs holds at most " + std::to_string(kMostPartialResults) +
                  "; choose a larger PE");
  if (depthwise_ && folding.window == WindowStyle::kFolded && folding.window_lanes != folding.pe)
    return refuse("a depthwise convolution needs as many window lanes as PE; set both to " +
                  std::to_string(folding.pe));
  if (folding.implementation == Implementation::kFolded && folding.multiplier == Multiplier::kDspPair &&
      !pairs())
    return refuse(
        has_most_negative_
            ? "a weight is " + std::to_string(layer_.weight_type.lowest()) +
                  ", which a DSP slice that computes two products does not support; "
                  "choose one product per slice, or train with a symmetric range"
            : "two products in a DSP slice need integer inputs and signed weights of at most 8 bits; "
              "choose one product per slice");
  if (folding.implementation == Implementation::kFolded && !streams()) {
    const std::uint64_t lines = std::uint64_t{rows(folding) / folding.pe} * (columns(folding) / folding.simd);
    MILLRACE_TRY(check_table(folding, lines, ", or a larger PE" + std::string(depthwise_ ? "" : " or SIMD")));
  }
  if (step_ && folding.pe * windows(folding) * matrices(folding) > 999)
    return refuse("PE " + std::to_string(folding.pe) + ": at most 999 lanes can be requantised in parallel");
  return {};
}

double ConvolutionBlock::lead() const {
  const double pixels = static_cast<double>(in_.h) * in_.w;
  if (windowless_) return static_cast<double>(taps_) / pixels;
  const auto& w = layer_.window;
  const double rows_needed = reach(w.kernel_h, w.dilation_h) - 1 - static_cast<double>(w.pad_top);
  const double columns_needed = reach(w.kernel_w, w.dilation_w) - static_cast<double>(w.pad_left);
  return std::clamp((rows_needed * in_.w + columns_needed) / pixels, 1.0 / pixels, 1.0);
}

MadeGenerator make_convolution(const kernels::Program& program, std::uint32_t index) {
  const auto& block = program.blocks[index];
  const auto& layer = std::get<Convolution>(block.operation);
  const auto& in = program.tensors[block.inputs[0]].type;
  if (in.bits > kMostOperandBits || layer.weight_type.bits > kMostWeightBits)
    return Error(ErrorCode::kUnsupported, block_label(block) + "inputs of " + std::to_string(in.bits) +
                                              " bits and weights of " +
                                              std::to_string(layer.weight_type.bits) +
                                              " bits; hardware multiplies at most 8 bits by 9 bits");
  const auto& out = program.tensors[block.outputs[0]].type;
  if (layer.requantise && out.bits > kMostOperandBits)
    return Error(ErrorCode::kUnsupported, block_label(block) + "a result of " + std::to_string(out.bits) +
                                              " bits; hardware requantises to at most 8 bits");
  return std::unique_ptr<Generator>(std::make_unique<ConvolutionBlock>(program, index));
}

}  // namespace millrace::compiler::generators
