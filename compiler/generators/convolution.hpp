// The generator for convolutions of all kinds and for fully connected layers. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/step_function.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators {

/// The hardware of a convolution: a sliding window, a matrix-vector unit, and a unit for requantisation.
class ConvolutionBlock : public Generator {
 public:
  ConvolutionBlock(const kernels::Program& program, std::uint32_t block);

  std::vector<Folding> proposals(std::uint64_t interval_cycles) const override;

 protected:
  Status check(const Folding& folding) const override;
  Netlist construct(const Folding& folding, NetlistBuilder& netlist) const override;
  double lead() const override;
  std::vector<std::uint64_t> all_intervals() const override;

 private:
  // Functions in convolution.cpp: the layer's data, and which implementations are possible.
  void read_weights();
  void collect_constants();
  /// Returns a weight of output channel `o`, which is counted over all groups.
  std::int64_t weight(const Folding& folding, std::uint32_t o, std::uint32_t column) const;
  Status check_window(const Folding& folding) const;
  Status check_unrolled(const Folding& folding) const;
  std::uint32_t windows(const Folding& folding) const;  // how many windows are computed in parallel
  /// Returns how many pixels lie from the first to the last tap of a kernel, both included.
  static std::uint32_t reach(std::uint32_t kernel, std::uint32_t dilation) {
    return (kernel - 1) * dilation + 1;
  }
  /// Returns how many matrices work in parallel: one for each group if a beat contains the channels of one pixel.
  /// Behind an mr_swu_par, which outputs whole windows, the lanes of a group are not adjacent. In this case, there is
  /// one matrix, with zeros as weights between different groups.
  std::uint32_t matrices(const Folding& folding) const {
    return depthwise_ || folding.window == WindowStyle::kParallel ? 1 : layer_.groups;
  }
  std::uint32_t rows(const Folding& folding) const {  // of one matrix
    return depthwise_ ? in_.c : out_.c / matrices(folding);
  }
  std::uint32_t columns(const Folding& folding) const {
    return depthwise_ ? taps_ : taps_ * in_.c / matrices(folding);
  }
  bool bias_in_sum() const { return any_bias_ && (!step_ || !step_->takes_bias()); }
  /// Whether the hardware reads the layer's weights from the card's memory while it computes.
  bool streams() const { return block_.placement == Placement::kStreamed && can_stream(block_); }
  std::uint64_t cycles_a_line(std::uint32_t pe, std::uint32_t simd) const {
    return streams() ? weight_line_cycles(std::uint64_t{pe} * simd * layer_.weight_type.bits) : 1;
  }
  bool pairs() const {
    using Kind = kernels::ElementType::Kind;
    return !streams() && layer_.weight_type.kind == Kind::kSigned && layer_.weight_type.bits <= 8 &&
           !has_most_negative_ && input().type.kind != Kind::kBipolar && !depthwise_;
  }
  bool unrolls() const { return constants_.has_value(); }

  // Functions in convolution_foldings.cpp: the foldings (degrees of parallelism) worth considering.
  std::uint64_t scan_cycles(std::uint32_t pixels) const;
  std::vector<Folding> window_styles(std::uint64_t interval_cycles) const;
  void add_foldings(const Folding& window, std::uint64_t interval_cycles, std::vector<Folding>& found) const;

  // Functions in convolution_units.cpp: the units and the contents of their memories.
  class Units;
  /// Returns a netlist that contains only the window's unit.
  Netlist window_unit(const Folding& folding) const;

  const kernels::Convolution& layer_;
  Image in_, out_;
  std::uint32_t taps_ = 1;
  std::uint64_t vectors_ = 1;
  bool depthwise_ = false, windowless_ = false, has_most_negative_ = false, any_bias_ = false;
  unsigned acc_bits_ = 1;
  std::optional<StepFunction> step_;
  std::uint64_t nonzero_ = 0;                // number of weights that are not 0
  std::int64_t largest_ = 0;                 // largest absolute value of a weight
  std::optional<ConstantMatrix> constants_;  // empty if the layer cannot be unrolled
};

}  // namespace millrace::compiler::generators
