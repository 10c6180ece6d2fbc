// What can implement a block in hardware, and at what price: the folded (streaming, PE by SIMD) and the
// unrolled (constants as circuits) generator.
//
// A Generator reads a block once and answers for any folding of it; the instances whose costs it adds up are
// the very ones build() hands to emission, so that what is predicted is what is built.
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
  kDsp = 1,      // a DSP slice a product
  kDspPair = 2,  // a DSP slice for two products: signed weights without their most negative value
};

/// Where weights, and the constants of requantisation with them, come from.
using kernels::Placement;

/// Values are mr_table's STYLE.
enum class TableStyle : std::uint8_t { kAuto = 0, kBlock = 1, kLogic = 2 };

/// Which generator builds it.
enum class Implementation : std::uint8_t {
  kFolded,    // units that take their weights from tables, PE by SIMD at a time
  kUnrolled,  // each weight a circuit of its own, a window a cycle: pe and simd are the whole matrix
  kPlugin,    // a generator outside (plugin.hpp): only `variant` means something
};

/// How windows are made from an image.
enum class WindowStyle : std::uint8_t {
  kNone,      // the window is the whole input or one pixel: the stream itself
  kFolded,    // mr_swu: a tap a beat, `window_lanes` channels of it
  kParallel,  // mr_swu_par: `pixels` whole windows a beat
};

/// How far a block is spread out in space. What a field means where:
///   Convolution   pe output channels side by side, simd inputs each, `pixels` windows at once
///   grouped       the same of each group, all groups side by side (pixels 1); dense behind a parallel window
///   depthwise     pe channels side by side (simd 1, pixels 1)
///   all others    simd elements a beat; with `pixels` n > 1 these are n whole pixels (pooling: simd channels
///   of each)
struct Folding {
  Implementation implementation = Implementation::kFolded;
  std::uint32_t pe = 1, simd = 1, pixels = 1;
  WindowStyle window = WindowStyle::kNone;
  std::uint32_t window_lanes = 1;  // kFolded: channels a beat, a divisor of the channels
  Multiplier multiplier = Multiplier::kDsp;
  Placement weights = Placement::kBaked;  // the block's
  TableStyle memory = TableStyle::kAuto;
  std::string variant = {};  // kPlugin: the candidate's name
  bool operator==(const Folding&) const = default;
};

/// "PE 6 SIMD 75, 2 MACs a DSP": for headers and reports.
std::string to_string(const Folding& folding);

struct Candidate {
  Folding folding;
  Cost cost;  // of the block's own units; edge_cost() has what joins it to its neighbours
  std::uint64_t interval_cycles = 0;  // a frame, in steady state, nothing else in the way
  std::uint64_t latency_cycles =
      0;  // first input beat to last output beat of a lone frame, fed as fast as it takes it
  std::uint64_t depth_cycles = 0;  // from the input beat that completes an output beat to that output beat
  /// From the last input beat to the last output beat, where the input came no faster than the block
  /// computes.
  std::uint64_t tail_cycles = 0;
  double lead = 0;  // part of the frame's input that must be there for the first output beat, 0..1
  std::vector<std::uint32_t> input_lanes;  // one an input of the block
  std::uint32_t output_lanes = 1;
  std::uint64_t memory_bytes = 0;  // read from DDR or HBM a frame (kStreamed), else 0
};

class Plugin;

/// One block of one program. Constant after construction: any thread may ask.
class Generator {
 public:
  /// `program` is valid and outlives the generator. kUnsupported: no hardware for such a block; the message
  /// names it and why, and the host takes it.
  /// With a plugin (it outlives the generator too), what that offers stands beside our own.
  static Result<std::unique_ptr<Generator>> make(const kernels::Program& program, std::uint32_t block,
                                                 const Plugin* plugin = nullptr);
  virtual ~Generator() = default;

  /// The units of the block with the block's streams, names beginning with identifier(block name). Memory
  /// files have their content where `memories` is set (that takes time in proportion to the weights).
  /// kInvalidInput: the folding cannot be (it does not divide, the weights do not suit the multiplier, a
  /// memory is too deep); the message names block, field and remedy.
  virtual Result<Netlist> build(const Folding& folding, bool memories) const = 0;

  /// Cost and cycles of one folding; errors as build(), and cost()'s.
  virtual Result<Candidate> candidate(const Catalog& catalog, const Folding& folding) const = 0;

  /// The foldings worth considering for an interval of at most `interval_cycles` (each as slow as that
  /// allows, with each multiplier and window style that suits), cheapest in DSP first. Empty where none is
  /// that fast.
  virtual std::vector<Folding> foldings(std::uint64_t interval_cycles) const = 0;

  /// Every interval between full folding and full unrolling at which foldings() changes, ascending; at most
  /// about 200.
  virtual std::vector<std::uint64_t> intervals() const = 0;
};

/// Whether there is hardware that reads the block's weights from memory as it uses them: where they are
/// placed so, what cannot is loaded.
bool can_stream(const kernels::Block& block);

/// What joins two blocks: an adapter where lanes differ, and a FIFO `depth` deep.
Result<Cost> edge_cost(const Catalog& catalog, std::uint32_t from_lanes, std::uint32_t to_lanes,
                       std::uint32_t bits, std::uint64_t depth);

/// Sum of cost() over the netlist's instances.
Result<Cost> netlist_cost(const Catalog& catalog, const Netlist& netlist);

/// Of what a partition's shell has beside the device's own because something is loaded (mr_parameters);
/// nothing where nothing is. No part of netlist_cost().
Result<Cost> loader_cost(const Catalog& catalog, const Netlist& netlist);

/// At most, whatever is loaded: what there is to load hardly changes it.
Result<Cost> largest_loader_cost(const Catalog& catalog);

}  // namespace millrace::compiler::generators
