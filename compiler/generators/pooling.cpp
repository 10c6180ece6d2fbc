// The generator for maximum and sum pooling. If windows neither overlap nor have padding, one unit is enough; otherwise
// a sliding window precedes it. Sums are requantised.
#include <algorithm>
#include <optional>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/step_function.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::ElementType;

class PoolingBlock : public LanesBlock {
 public:
  PoolingBlock(const kernels::Program& program, std::uint32_t block)
      : LanesBlock(program, block), in_(image(input())), out_(image(output())) {
    if (const auto* sum = std::get_if<kernels::SumPool>(&block_.operation)) {
      window_ = sum->window;
      step_.emplace(sum->requantise, output().type, in_.c, std::vector<std::int32_t>{}, loaded());
      const auto n = static_cast<std::int64_t>(window_.kernel_h) * window_.kernel_w;
      const std::int64_t low = std::min<std::int64_t>(input().type.lowest(), 0);
      bits_ = signed_bits(low * n, input().type.highest() * n);
    } else {
      window_ = std::get<kernels::MaxPool>(block_.operation).window;
      bits_ = input().type.bits;
    }
    const auto& w = window_;
    const bool unpadded = w.pad_top == 0 && w.pad_left == 0 && w.pad_bottom == 0 && w.pad_right == 0;
    const bool dense = w.dilation_h == 1 && w.dilation_w == 1;
    whole_ = unpadded && dense && w.kernel_h == in_.h && w.kernel_w == in_.w;
    apart_ = unpadded && dense && w.kernel_h == w.stride_h && w.kernel_w == w.stride_w &&
             out_.w <= kMostPartialResults;
  }

 protected:
  Status check(const Folding& folding) const override;
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override;
  double lead() const override;
  std::vector<Folding> possible() const override {
    std::vector<Folding> all = lane_foldings(in_);
    for (Folding& folding : all) {
      folding.window = windowless() ? WindowStyle::kNone : WindowStyle::kFolded;
      folding.window_lanes = windowless() ? 1 : folding.simd;
    }
    return all;
  }
  std::uint64_t interval(const Folding& folding) const override {
    const std::uint64_t in = in_.elements() / folding.simd / folding.pixels;
    return windowless() ? in : std::max(in, out_.elements() / folding.simd * taps());
  }

 private:
  bool windowless() const { return whole_ || apart_; }
  std::uint64_t taps() const { return std::uint64_t{window_.kernel_h} * window_.kernel_w; }
  int operation() const { return step_ ? 1 : 0; }
  /// Returns the parameter AKIND. Bipolar elements are compared as unsigned numbers to find their maximum.
  int lane_kind() const { return kind(input().type) == 1 ? 1 : 0; }

  Image in_, out_;
  kernels::Window window_;
  std::optional<StepFunction> step_;
  unsigned bits_ = 8;   // width of a partial result
  bool whole_ = false;  // whether the only window is the whole input
  bool apart_ = false;  // whether windows neither overlap nor leave gaps
};

Status PoolingBlock::check(const Folding& folding) const {
  if (folding.pe != 1) return refuse("only SIMD and pixels can be changed for pooling; set PE to 1");
  if (in_.c % folding.simd != 0)
    return refuse("SIMD " + std::to_string(folding.simd) + " does not divide " + std::to_string(in_.c) +
                  " channels; choose a divisor");
  const std::uint32_t pixels = folding.pixels;
  const bool fits = pixels == 1 || (apart_ && folding.simd == in_.c && window_.kernel_w % pixels == 0 &&
                                    in_.w % pixels == 0);
  if (!fits)
    return refuse(std::to_string(pixels) +
                  " pixels per cycle need all channels in parallel, and must divide the kernel's width of " +
                  std::to_string(window_.kernel_w) + " and the row of " + std::to_string(in_.w) +
                  " pixels; choose fewer pixels per cycle");
  const std::uint32_t partial = in_.c / folding.simd * (apart_ ? out_.w : 1);
  if (partial > kMostPartialResults)
    return refuse("SIMD " + std::to_string(folding.simd) + " leaves " + std::to_string(partial) +
                  " partial results, but a memory in LUTs holds at most " +
                  std::to_string(kMostPartialResults) + "; choose a larger SIMD");
  if ((folding.window != WindowStyle::kNone) == windowless() || folding.window == WindowStyle::kParallel)
    return refuse(
        windowless() ? "this pooling needs no sliding window; choose 'window: none'"
                     : "this pooling needs a sliding window with one tap per cycle; choose 'window: folded'");
  return {};
}

Netlist PoolingBlock::construct(const Folding& folding, NetlistBuilder& netlist) const {
  const std::uint32_t simd = folding.simd, folds = in_.c / simd;
  const ElementType type = input().type;
  const auto& w = window_;
  StreamIndex at = netlist.input(simd * folding.pixels, type.bits, in_.elements());
  const NetlistBuilder::Output out = {simd, bits_, out_.elements() / simd};
  if (apart_) {
    at = netlist.add("mr_pool", "pool",
                     {{"OP", operation()},
                      {"H", in_.h},
                      {"W", in_.w},
                      {"CF", folds},
                      {"SIMD", simd},
                      {"KH", w.kernel_h},
                      {"KW", w.kernel_w},
                      {"ABITS", type.bits},
                      {"AKIND", lane_kind()},
                      {"OBITS", bits_},
                      {"PX", folding.pixels}},
                     {at}, out);
  } else {
    if (!whole_) {
      const std::int64_t pad = step_ ? w.pad_value : lane_kind() == 1 ? type.lowest() : 0;
      at = netlist.add("mr_swu", "window",
                       {{"H", in_.h},
                        {"W", in_.w},
                        {"CF", folds},
                        {"SIMD", simd},
                        {"ABITS", type.bits},
                        {"KH", w.kernel_h},
                        {"KW", w.kernel_w},
                        {"SH", w.stride_h},
                        {"SW", w.stride_w},
                        {"DH", w.dilation_h},
                        {"DW", w.dilation_w},
                        {"PT", w.pad_top},
                        {"PL", w.pad_left},
                        {"PB", w.pad_bottom},
                        {"PR", w.pad_right},
                        {"PAD_VALUE", pad},
                        {"ROWS", (w.kernel_h - 1) * w.dilation_h + 1 + w.stride_h}},
                       {at}, {simd, type.bits, out.beats * taps()});
    }
    at = netlist.add("mr_reduce", "reduce",
                     {{"OP", operation()},
                      {"TAPS", static_cast<std::int64_t>(taps())},
                      {"CF", folds},
                      {"SIMD", simd},
                      {"ABITS", type.bits},
                      {"AKIND", lane_kind()},
                      {"OBITS", bits_}},
                     {at}, out);
  }
  if (step_) {
    step_->write_files(netlist, simd, bits_, {"requant"});
    at = step_->add(netlist, "requant", at);
  }
  return netlist.finish(at);
}

double PoolingBlock::lead() const {
  const double pixels = static_cast<double>(in_.h) * in_.w;
  const double rows = (window_.kernel_h - 1.0) * window_.dilation_h - window_.pad_top;
  const double columns = (window_.kernel_w - 1.0) * window_.dilation_w + 1.0 - window_.pad_left;
  return std::clamp((rows * in_.w + columns) / pixels, 1.0 / pixels, 1.0);
}

}  // namespace

MadeGenerator make_pooling(const kernels::Program& program, std::uint32_t index) {
  const auto& block = program.blocks[index];
  const bool sum = std::holds_alternative<kernels::SumPool>(block.operation);
  const auto& in = program.tensors[block.inputs[0]].type;
  const auto& out = program.tensors[block.outputs[0]].type;
  if (sum && in.kind == ElementType::Kind::kBipolar)
    return Error(ErrorCode::kUnsupported,
                 block_label(block) + "hardware cannot sum bipolar elements; this block runs on the host");
  if (sum && out.bits > 8)
    return Error(ErrorCode::kUnsupported, block_label(block) + "a result of " + std::to_string(out.bits) +
                                              " bits; hardware requantises to at most 8 bits");
  return std::unique_ptr<Generator>(std::make_unique<PoolingBlock>(program, index));
}

}  // namespace millrace::compiler::generators
