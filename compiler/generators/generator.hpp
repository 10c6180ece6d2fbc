// The possible hardware implementations of a block, with cost and speed: folded (streaming; PE outputs by SIMD inputs
// are computed at once), unrolled (constants as circuits), or made by a plugin.
//
// A Generator reads a block once and can then evaluate any folding (degree of parallelism) of it. Its predicted cost is
// the sum over the instances that build() returns for emission, so the prediction describes what is built.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/generators/netlist.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::generators {

/// How products are computed. The numbers are the values of mr_mvu's parameter MUL.
enum class Multiplier : std::uint8_t {
  kSoft = 0,  // in LUTs
  kDsp = 1,   // a DSP slice for each product
  /// One DSP slice computes two products. The weights are signed and never the type's most negative value.
  kDspPair = 2,
};

/// Where weights and the constants of requantisation come from.
using kernels::Placement;

/// Where a table is stored. The numbers are the values of mr_table's parameter STYLE.
enum class TableStyle : std::uint8_t { kAuto = 0, kBlock = 1, kLogic = 2 };

/// How the hardware of a block is made.
enum class Implementation : std::uint8_t {
  kFolded,    // by units that read PE by SIMD weights at a time from tables
  kUnrolled,  // by circuits made from the constants, one window per cycle; PE by SIMD is the whole matrix
  kPlugin,    // by an external generator (plugin.hpp); only the field `variant` is used
};

/// The hardware unit that cuts windows out of an input tensor.
enum class WindowStyle : std::uint8_t {
  kNone,      // no unit is needed, because the window is the whole input or one pixel
  kFolded,    // mr_swu: a beat has `window_lanes` channels of one tap
  kParallel,  // mr_swu_par: a beat has `pixels` whole windows
};

/// The parallelism of a block. The meaning of the fields depends on the kind of block:
///   convolution without groups  `pe` output channels in parallel, each with `simd` inputs, `pixels` windows at once
///   convolution with groups     the same for each group, all groups at once (pixels 1); as without groups if the
///                               sliding window is parallel
///   depthwise convolution       `pe` channels in parallel (simd 1, pixels 1)
///   pooling                     `simd` channels of each pixel, `pixels` pixels per beat
///   all other blocks            `simd` elements per beat; if `pixels` is above 1, a beat has that many whole pixels
struct Folding {
  Implementation implementation = Implementation::kFolded;
  std::uint32_t pe = 1, simd = 1, pixels = 1;
  WindowStyle window = WindowStyle::kNone;
  std::uint32_t window_lanes = 1;  // for kFolded: channels per beat, a divisor of the channels
  Multiplier multiplier = Multiplier::kDsp;
  Placement weights = Placement::kBaked;  // must be the block's placement
  TableStyle memory = TableStyle::kAuto;
  std::string variant = {};  // for kPlugin: the name of the plugin's candidate
  bool operator==(const Folding&) const = default;
};

/// Returns a text for file headers and reports, such as "PE 6 SIMD 75, 2 MACs a DSP" (6 outputs and 75 inputs at once,
/// two multiplications in each DSP slice).
std::string to_string(const Folding& folding);

struct Candidate {
  Folding folding;
  Cost cost;  // cost of the block's own units; edge_cost() covers connections to neighbours
  std::uint64_t interval_cycles = 0;  // cycles per frame in steady state, if no other block limits the rate
  /// Cycles from the first input beat to the last output beat of a single frame, sent as fast as the block accepts it.
  std::uint64_t latency_cycles = 0;
  std::uint64_t depth_cycles = 0;  // from the input beat that completes an output beat to that output beat
  /// Cycles from the last input beat to the last output beat, if the input comes no faster than the block computes.
  std::uint64_t tail_cycles = 0;
  double lead = 0;  // fraction of a frame's input that must arrive before the first output beat
  std::vector<std::uint32_t> input_lanes;         // one entry for each input of the block
  std::vector<std::uint32_t> output_lanes = {1};  // one entry for each output of the block
  std::uint64_t memory_bytes = 0;  // bytes read from DDR or HBM per frame; 0 unless weights are kStreamed
};

class NetlistBuilder;
class Plugins;

/// Generates hardware for one block of one program. Constant after construction, so any thread may call it. Each kind
/// of block has a subclass that describes our own hardware; plugins can add candidates to it.
class Generator {
 public:
  /// Makes the generator of a block. `program` must be valid. Both `program` and `plugins`, whose candidates are added
  /// to our own, must outlive the generator. kUnsupported if there is no hardware for the block: the message names the
  /// block and the reason, and the block then runs on the host.
  static Result<std::unique_ptr<Generator>> make(const kernels::Program& program, std::uint32_t block,
                                                 const Plugins* plugins = nullptr);
  virtual ~Generator() = default;

  /// Returns the block's units and streams. Their names begin with `name` or, if `name` is empty, with identifier(block
  /// name). Memory files have content only if `memories` is set, which takes time in proportion to the weights.
  /// kInvalidInput if the folding is impossible: a number does not divide, weights do not suit the multiplier, or a
  /// memory is too deep. The message names block, field and remedy.
  Result<Netlist> build(const Folding& folding, bool memories, const std::string& name = {}) const;

  /// Returns the cost and cycles of one folding (degree of parallelism). Errors are those of build() and cost().
  Result<Candidate> candidate(const Catalog& catalog, const Folding& folding) const;

  /// Returns the foldings worth considering for an interval of at most `interval_cycles`, with each suitable multiplier
  /// and window style. Each folding is as slow as that interval allows. Foldings with the fewest DSP slices come first.
  /// Empty if no folding is fast enough.
  std::vector<Folding> foldings(std::uint64_t interval_cycles) const;

  /// Returns, in ascending order, the intervals from full unrolling to full folding at which the result of foldings()
  /// changes. There are at most about 200.
  std::vector<std::uint64_t> intervals() const;

 protected:
  Generator(const kernels::Program& program, std::uint32_t block);

  /// Returns the foldings (degrees of parallelism) of our own hardware. foldings() adds the weights' placement and the
  /// plugins' candidates.
  virtual std::vector<Folding> proposals(std::uint64_t interval_cycles) const = 0;
  /// Returns kInvalidInput, made by refuse(), if the folding (the block's parallelism) is impossible.
  virtual Status check(const Folding& folding) const = 0;
  /// Builds the units with `netlist`. The folding (the block's parallelism) has passed check().
  virtual Netlist construct(const Folding& folding, NetlistBuilder& netlist) const = 0;
  /// Returns the fraction of the input that the first output beat needs.
  virtual double lead() const = 0;
  /// Returns the intervals of all useful foldings (degrees of parallelism), in any order.
  virtual std::vector<std::uint64_t> all_intervals() const = 0;

  /// Whether the block's constants are written after the FPGA is programmed.
  bool loaded() const { return block_.placement != Placement::kBaked; }

  Error refuse(const std::string& why) const;
  /// Returns an error if the folding (the block's parallelism) puts a table with too many `lines` into LUTs. The error
  /// ends with `remedy`.
  Status check_table(const Folding& folding, std::uint64_t lines, const std::string& remedy) const;
  const kernels::Tensor& input(std::size_t i = 0) const { return program_.tensors[block_.inputs[i]]; }
  const kernels::Tensor& output() const { return program_.tensors[block_.outputs[0]]; }

  const kernels::Program& program_;
  const kernels::Block& block_;
  const Plugins* plugins_ = nullptr;  // null if no plugin has a candidate for this block

 private:
  /// Returns the candidate (the hardware proposed by a plugin) that `folding` names.
  Result<Candidate> offered(const Folding& folding) const;

  std::uint32_t index_;
  std::vector<Candidate> offers_;
};

/// Whether hardware can read the block's weights from memory while it computes. If false, streaming is impossible, and
/// the hardware loads the weights once.
bool can_stream(const kernels::Block& block);

/// Returns the cost of a connection between two blocks: a FIFO with `depth` beats, and an adapter if the lanes differ.
Result<Cost> edge_cost(const Catalog& catalog, std::uint32_t from_lanes, std::uint32_t to_lanes,
                       std::uint32_t bits, std::uint64_t depth);

/// Returns the sum of cost() over all instances that the netlist needs, except mr_parameters.
Result<Cost> netlist_cost(const Catalog& catalog, const Netlist& netlist);

/// Returns the cost of mr_parameters, which the shell of a partition contains if constants are loaded; otherwise
/// zero. netlist_cost() does not include this cost.
Result<Cost> loader_cost(const Catalog& catalog, const Netlist& netlist);

/// Returns an upper bound of loader_cost() for any netlist. The amount of constants hardly changes the cost.
Result<Cost> largest_loader_cost(const Catalog& catalog);

}  // namespace millrace::compiler::generators
