// Helpers that the generators for all kinds of block share. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "compiler/generators/netlist_builder.hpp"

namespace millrace::compiler::generators {

/// A generator for a block whose foldings (degrees of parallelism) differ only in the number of elements per beat.
class LanesBlock : public Generator {
 protected:
  using Generator::Generator;

  /// Returns foldings (degrees of parallelism) in ascending order of elements per beat. Some of them may fail check().
  virtual std::vector<Folding> possible() const = 0;
  /// Returns the cycles that one frame takes.
  virtual std::uint64_t interval(const Folding& folding) const = 0;

 private:
  std::vector<Folding> proposals(std::uint64_t interval_cycles) const final {
    for (const Folding& folding : possible())
      if (check(folding).ok() && interval(folding) <= interval_cycles) return {folding};
    return {};
  }
  std::vector<std::uint64_t> all_intervals() const final {
    std::vector<std::uint64_t> all;
    for (const Folding& folding : possible())
      if (check(folding).ok()) all.push_back(interval(folding));
    return all;
  }
};

/// The maximum number of lines of a memory in LUTs that is read and written at the same address (partial results).
/// Yosys cannot map a deeper memory of this kind.
inline constexpr std::uint32_t kMostPartialResults = 256;

/// The maximum number of lines of a table that a folding (a choice of parallelism) may put into LUTs. A deeper table
/// would take hundreds of LUTs instead of one block RAM. If the folding leaves the choice to the synthesis tool, the
/// tool puts a deep table into LUTs only if the table is narrow.
inline constexpr std::uint64_t kMostLogicLines = 1024;

/// Height, width and channels of a tensor that the dataflow streams.
struct Image {
  std::uint32_t h = 1, w = 1, c = 1;
  std::uint64_t elements() const { return std::uint64_t{h} * w * c; }
};
Image image(const kernels::Tensor& tensor);

/// Returns the value of a hardware module's parameter AKIND or WKIND: 0 for unsigned, 1 for signed, 2 for bipolar.
int kind(kernels::ElementType type);

/// Returns all divisors of `n` in ascending order.
std::vector<std::uint32_t> divisors(std::uint32_t n);

/// Returns foldings (degrees of parallelism) with ever more elements per beat: first every divisor of the number of
/// channels, then every number of whole pixels that divides the width of the tensor.
std::vector<Folding> lane_foldings(const Image& image);

/// Estimated cycles of a unit that never waits for another unit: `interval` for a whole frame, and `latency` from the
/// input beat that completes an output beat to that output beat.
struct UnitCycles {
  std::uint64_t interval = 0, latency = 0;
};
UnitCycles unit_cycles(const Netlist& netlist, const Unit& unit);

/// The gaps in the output of an mr_swu_par (the sliding-window unit that reads several pixels per cycle), in cycles. A
/// gap lies between the last window of a row (or frame) and the first window of the next row (or frame), while
/// mr_swu_par scans pixels that complete no window. During a gap, the matrix unit behind it can only work on windows
/// that the matrix unit has buffered.
struct WindowGaps {
  std::int64_t row = 0, frame = 0, rows = 0;
  /// Returns the idle cycles of a frame in the matrix unit, which makes `nf` passes of `sf` cycles over each vector.
  std::uint64_t cost(std::uint64_t nf, std::uint64_t sf) const;
};
/// Returns the gaps of a window unit whose input beats come every `cycles_a_beat` cycles. All gaps are zero if the unit
/// is not an mr_swu_par (a sliding-window unit that reads several pixels per cycle).
WindowGaps window_gaps(const Netlist& netlist, const Unit& window, std::int64_t cycles_a_beat = 1);

/// Returns the cycles for a frame of a matrix unit behind an mr_swu_par (a sliding-window unit that reads several
/// pixels per cycle), or 0 if the block has no mr_swu_par. Takes into account that gaps become longer if an adapter
/// before the mr_swu_par makes each beat from several narrower beats.
std::uint64_t fed_interval(const Netlist& netlist, std::int32_t block);

// Each function below makes a generator for a valid block. Errors are those of Generator::make().
using MadeGenerator = Result<std::unique_ptr<Generator>>;
MadeGenerator make_convolution(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_pooling(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_reorder(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_elementwise(const kernels::Program& program, std::uint32_t block);

/// Returns the beginning of an error message: "block 'conv_5' (convolution): ".
std::string block_label(const kernels::Block& block);

}  // namespace millrace::compiler::generators
