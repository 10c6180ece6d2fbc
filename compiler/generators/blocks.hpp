// What the generators for all kinds of block have in common. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "compiler/generators/netlist_builder.hpp"

namespace millrace::compiler::generators {

/// A block whose only choice is the number of elements a beat.
class LanesBlock : public Generator {
 protected:
  using Generator::Generator;

  /// The foldings that may pass check(), with the number of elements ascending.
  virtual std::vector<Folding> possible() const = 0;
  /// Cycles of a frame.
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

/// The most lines of a memory in LUTs that is read and written at one address (partial results): Yosys cannot
/// map deeper ones.
inline constexpr std::uint32_t kMostPartialResults = 256;

/// The most lines of a table that a folding may put into LUTs. A deeper one takes hundreds of LUTs instead of
/// one block RAM, and as LUTRAM also multiplexers that no cost counts. The tools leave only narrow ones
/// there.
inline constexpr std::uint64_t kMostLogicLines = 1024;

/// Height, width and channels of a tensor of the dataflow.
struct Image {
  std::uint32_t h = 1, w = 1, c = 1;
  std::uint64_t elements() const { return std::uint64_t{h} * w * c; }
};
Image image(const kernels::Tensor& tensor);

/// The value of AKIND or WKIND: 0 unsigned, 1 signed, 2 bipolar.
int kind(kernels::ElementType type);

/// Ascending.
std::vector<std::uint32_t> divisors(std::uint32_t n);

/// The foldings by elements a beat that divide a tensor's rows: by divisors of the channels, then by whole pixels.
/// The number of elements ascends.
std::vector<Folding> lane_foldings(const Image& image);

/// Estimates for a unit that no other unit holds up: cycles of a frame, and cycles from the input beat that
/// completes an output beat to that beat.
struct UnitCycles {
  std::uint64_t interval = 0, latency = 0;
};
UnitCycles unit_cycles(const Netlist& netlist, const Unit& unit);

/// The gaps in the output of an mr_swu_par: its scan over pixels between the last window of a row (of a
/// frame) and the first of the next. Meanwhile the matrix-vector unit behind it can only work on windows that
/// it has buffered.
struct WindowGaps {
  std::int64_t row = 0, frame = 0, rows = 0;
  /// Cycles of a frame in which that unit is idle.
  std::uint64_t cost(std::uint64_t nf, std::uint64_t sf) const;
};
/// The gaps of a window whose input beats come every `cycles_a_beat`. All zero for any other unit.
WindowGaps window_gaps(const Netlist& netlist, const Unit& window, std::int64_t cycles_a_beat = 1);

/// Cycles of a frame of a block's matrix-vector unit behind an mr_swu_par, if an adapter before the window
/// makes each of its beats from several. Pixels then come no faster while the window makes nothing of them. 0
/// if the block has no such window.
std::uint64_t fed_interval(const Netlist& netlist, std::int32_t block);

// The block is valid; errors as Generator::make().
using MadeGenerator = Result<std::unique_ptr<Generator>>;
MadeGenerator make_convolution(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_pooling(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_elementwise(const kernels::Program& program, std::uint32_t block);

/// "block 'conv_5' (convolution): ", the beginning of an error.
std::string block_label(const kernels::Block& block);

}  // namespace millrace::compiler::generators
