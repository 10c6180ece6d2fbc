// The implementations of a block in hardware, with cost and speed: folded (streaming, PE by SIMD), unrolled
// (constants as circuits), or a plugin's.
//
// A Generator reads a block once and answers for any of its foldings. It adds up the costs of exactly those
// instances that build() returns for emission, so the prediction is of what is built.
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

/// Values are mr_mvu's MUL.
enum class Multiplier : std::uint8_t {
  kSoft = 0,     // LUTs
  kDsp = 1,      // a DSP slice for each product
  kDspPair = 2,  // a DSP slice for two products: signed weights without their most negative value
};

/// The source of weights and of the constants of requantisation.
using kernels::Placement;

/// Values are mr_table's STYLE.
enum class TableStyle : std::uint8_t { kAuto = 0, kBlock = 1, kLogic = 2 };

/// The generator that builds a block.
enum class Implementation : std::uint8_t {
  kFolded,    // units that take their weights from tables, PE by SIMD at a time
  kUnrolled,  // constants as circuits, one window a cycle: PE by SIMD is the whole matrix
  kPlugin,    // an external generator (plugin.hpp): only `variant` has a meaning
};

/// The unit that cuts windows out of an image.
enum class WindowStyle : std::uint8_t {
  kNone,      // none is needed: the window is the whole input or one pixel
  kFolded,    // mr_swu: a tap a beat, `window_lanes` channels of it
  kParallel,  // mr_swu_par: `pixels` whole windows a beat
};

/// The parallelism of a block. The fields mean:
///   Convolution   pe output channels in parallel, simd inputs each, `pixels` windows at once
///   grouped       the same for each group, all groups in parallel (pixels 1); dense behind a parallel window
///   depthwise     pe channels in parallel (simd 1, pixels 1)
///   all others    simd elements a beat; with `pixels` n > 1 they are n whole pixels (pooling: simd channels
///                 of each)
struct Folding {
  Implementation implementation = Implementation::kFolded;
  std::uint32_t pe = 1, simd = 1, pixels = 1;
  WindowStyle window = WindowStyle::kNone;
  std::uint32_t window_lanes = 1;  // kFolded: channels a beat, a divisor of the channels
  Multiplier multiplier = Multiplier::kDsp;
  Placement weights = Placement::kBaked;  // as the block has it
  TableStyle memory = TableStyle::kAuto;
  std::string variant = {};  // kPlugin: the candidate's name
  bool operator==(const Folding&) const = default;
};

/// "PE 6 SIMD 75, 2 MACs a DSP": for headers and reports.
std::string to_string(const Folding& folding);

struct Candidate {
  Folding folding;
  Cost cost;  // of the block's own units; edge_cost() has the connections to its neighbours
  std::uint64_t interval_cycles = 0;  // a frame, in steady state, if no other block limits the rate
  /// First input beat to last output beat of a single frame that is sent as fast as the block takes it.
  std::uint64_t latency_cycles = 0;
  std::uint64_t depth_cycles = 0;  // from the input beat that completes an output beat to that output beat
  /// From the last input beat to the last output beat, if the input came no faster than the block computes.
  std::uint64_t tail_cycles = 0;
  double lead = 0;  // fraction of a frame's input that its first output beat depends on
  std::vector<std::uint32_t> input_lanes;  // one an input of the block
  std::uint32_t output_lanes = 1;
  std::uint64_t memory_bytes = 0;  // read from DDR or HBM a frame (kStreamed), else 0
};

class NetlistBuilder;
class Plugin;

/// One block of one program. Constant after construction, so any thread may call it. Each kind of block is a class
/// that says how our own hardware implements it; candidates of a plugin come beside ours.
class Generator {
 public:
  /// `program` is valid and outlives the generator, and so does `plugin`, whose candidates are added to ours.
  /// kUnsupported if there is no hardware for such a block: the message names the block and the reason, and
  /// the block runs on the host.
  static Result<std::unique_ptr<Generator>> make(const kernels::Program& program, std::uint32_t block,
                                                 const Plugin* plugin = nullptr);
  virtual ~Generator() = default;

  /// The block's units and streams. Names begin with `name`, or with identifier(block name) if that is empty.
  /// Memory files have content only if `memories` is set, which takes time in proportion to the weights.
  /// kInvalidInput if the folding is impossible (it does not divide, the weights do not suit the multiplier, a
  /// memory is too deep): the message names block, field and remedy.
  Result<Netlist> build(const Folding& folding, bool memories, const std::string& name = {}) const;

  /// Cost and cycles of one folding; errors as build(), and cost()'s.
  Result<Candidate> candidate(const Catalog& catalog, const Folding& folding) const;

  /// The foldings worth considering for an interval of at most `interval_cycles`: each is as slow as that
  /// allows, with each suitable multiplier and window style. Those with fewest DSP slices come first. Empty
  /// if none is that fast.
  std::vector<Folding> foldings(std::uint64_t interval_cycles) const;

  /// The intervals between full folding and full unrolling at which foldings() changes, ascending; about 200
  /// at most.
  std::vector<std::uint64_t> intervals() const;

 protected:
  Generator(const kernels::Program& program, std::uint32_t block);

  // Our own hardware for a kind of block.
  /// The foldings for foldings(), without the placement of the weights.
  virtual std::vector<Folding> proposals(std::uint64_t interval_cycles) const = 0;
  /// kInvalidInput, made by refuse(), if the folding is impossible.
  virtual Status check(const Folding& folding) const = 0;
  /// Adds the units; `folding` has passed check().
  virtual Netlist construct(const Folding& folding, NetlistBuilder& netlist) const = 0;
  /// The fraction of the input that the first output beat needs.
  virtual double lead() const = 0;
  /// The intervals of all useful foldings, in any order.
  virtual std::vector<std::uint64_t> all_intervals() const = 0;

  /// Whether its constants are written after programming.
  bool loaded() const { return block_.placement != Placement::kBaked; }

  Error refuse(const std::string& why) const;
  /// Refuses to put a table of `lines` lines into LUTs, if the folding asks for it. The error ends with `remedy`.
  Status check_table(const Folding& folding, std::uint64_t lines, const std::string& remedy) const;
  const kernels::Tensor& input(std::size_t i = 0) const { return program_.tensors[block_.inputs[i]]; }
  const kernels::Tensor& output() const { return program_.tensors[block_.outputs[0]]; }

  const kernels::Program& program_;
  const kernels::Block& block_;
  const Plugin* plugin_ = nullptr;  // null: it offers nothing for this block

 private:
  /// The plugin's candidate that a folding names.
  Result<Candidate> offered(const Folding& folding) const;

  std::uint32_t index_;
  std::vector<Candidate> offers_;
};

/// Whether hardware can read the block's weights from memory as it uses them. Blocks that cannot are loaded
/// instead.
bool can_stream(const kernels::Block& block);

/// The cost of a connection between two blocks: a FIFO `depth` deep, and an adapter if the lanes differ.
Result<Cost> edge_cost(const Catalog& catalog, std::uint32_t from_lanes, std::uint32_t to_lanes,
                       std::uint32_t bits, std::uint64_t depth);

/// Sum of cost() over the netlist's instances.
Result<Cost> netlist_cost(const Catalog& catalog, const Netlist& netlist);

/// The cost of mr_parameters, which a partition's shell has if constants are loaded; otherwise nothing.
/// netlist_cost() does not contain it.
Result<Cost> loader_cost(const Catalog& catalog, const Netlist& netlist);

/// An upper bound of loader_cost(), whatever is loaded: the amount hardly changes the cost.
Result<Cost> largest_loader_cost(const Catalog& catalog);

}  // namespace millrace::compiler::generators
