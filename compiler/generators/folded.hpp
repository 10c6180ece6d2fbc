// What the generators of all kinds of block share. Private to compiler/generators.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "compiler/generators/netlist_builder.hpp"

namespace millrace::compiler::generators {

class FoldedBlock : public Generator {
 public:
  FoldedBlock(const kernels::Program& program, std::uint32_t block);

  Result<Netlist> build(const Folding& folding, bool memories) const final;
  Result<Candidate> candidate(const Catalog& catalog, const Folding& folding) const final;
  std::vector<Folding> foldings(std::uint64_t interval_cycles) const final;
  std::vector<std::uint64_t> intervals() const final;

 protected:
  /// What foldings() has, wherever the weights are.
  virtual std::vector<Folding> proposals(std::uint64_t interval_cycles) const = 0;
  /// Whether the folding can be; else kInvalidInput through refuse().
  virtual Status check(const Folding& folding) const = 0;
  /// The units, for a folding that was checked.
  virtual Netlist construct(const Folding& folding, NetlistBuilder& netlist) const = 0;
  /// Part of the input that the first output beat needs.
  virtual double lead() const = 0;
  /// Every folding's interval that matters, in any order.
  virtual std::vector<std::uint64_t> all_intervals() const = 0;

  /// Whether its parameters are written after programming.
  bool loaded() const { return block_.placement != Placement::kBaked; }

  Error refuse(const std::string& why) const;
  /// Whether a table of so many lines may stand where the folding wants it; `remedy` beside another memory.
  Status check_table(const Folding& folding, std::uint64_t lines, const std::string& remedy) const;
  const kernels::Tensor& input(std::size_t i = 0) const { return program_.tensors[block_.inputs[i]]; }
  const kernels::Tensor& output() const { return program_.tensors[block_.outputs[0]]; }

  const kernels::Program& program_;
  const kernels::Block& block_;
  std::uint32_t index_;
};

/// Lines of a memory in LUTs that is read and written at one address (partial results): deeper ones Yosys
/// cannot map.
inline constexpr std::uint32_t kMostPartialResults = 256;

/// Lines of a table that a folding asks to stand in LUTs: a deeper one takes hundreds where a block RAM would
/// do, and as LUTRAM multiplexers that no cost counts. The tools themselves leave only narrow ones there.
inline constexpr std::uint64_t kMostLogicLines = 1024;

/// Height, width and channels of a tensor of the dataflow.
struct Image {
  std::uint32_t h = 1, w = 1, c = 1;
  std::uint64_t elements() const { return std::uint64_t{h} * w * c; }
};
Image image(const kernels::Tensor& tensor);

/// AKIND, WKIND: 0 unsigned, 1 signed, 2 bipolar.
int kind(kernels::ElementType type);

/// Ascending.
std::vector<std::uint32_t> divisors(std::uint32_t n);

/// The lane counts that suit a tensor's elements one after another: divisors of the channels, then whole
/// pixels that divide the width. Ascending.
std::vector<std::uint32_t> lane_counts(const Image& image);

/// The folding with `lanes` elements a beat of such a tensor.
Folding elementwise_folding(const Image& image, std::uint32_t lanes);
std::uint32_t elementwise_lanes(const Image& image, const Folding& folding);

/// Cycles a frame of one unit, when nothing holds it up, and from the input beat that completes an output
/// beat to that beat.
struct UnitCycles {
  std::uint64_t interval = 0, latency = 0;
};
UnitCycles unit_cycles(const Netlist& netlist, const Unit& unit);

/// mr_swu_par's scan over pixels between the last window of a row (of a frame) and the first of the next, in
/// which the matrix-vector unit behind it has only the windows kept before it to work on.
struct WindowGaps {
  std::int64_t row = 0, frame = 0, rows = 0;
  /// Cycles a frame in which that unit has nothing to do.
  std::uint64_t cost(std::uint64_t nf, std::uint64_t sf) const;
};
/// Of the netlist's window, a beat of whose input takes `cycles_a_beat`; nothing for any other unit.
WindowGaps window_gaps(const Netlist& netlist, const Unit& window, std::int64_t cycles_a_beat = 1);

/// Cycles a frame that a matrix-vector unit behind an mr_swu_par takes where the adapter before that window
/// makes each of its beats of several: while the window passes pixels of which it makes nothing, they come no
/// faster. Of a block of a design's netlist; 0 where it has no such window.
std::uint64_t fed_interval(const Netlist& netlist, std::int32_t block);

// One a kind of block. The block is valid; errors as Generator::make().
using MadeGenerator = Result<std::unique_ptr<Generator>>;
MadeGenerator make_convolution(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_pooling(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_elementwise(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_concat(const kernels::Program& program, std::uint32_t block);
MadeGenerator make_permute(const kernels::Program& program, std::uint32_t block);

/// "block 'conv_5' (convolution): " before what is wrong with it.
std::string block_label(const kernels::Block& block);

}  // namespace millrace::compiler::generators
