// The design of a partition: an implementation and a folding (its parallelism) for each block, the whole netlist
// (blocks, adapters, forks, and FIFOs with computed depths), and the predicted interval, latency and resources.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/generators/generator.hpp"
#include "compiler/generators/netlist.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::generators {

struct BlockDesign {
  std::string block;
  Folding folding;
  Cost cost;  // cost of the block's own units
  /// Interval of the block alone. The design's interval is the largest interval of all blocks, or slightly more.
  std::uint64_t interval_cycles = 0;
  std::uint64_t multiply_accumulates = 0;
  /// Cycles of the interval in which the block's multipliers work; 0 if the block has no multipliers.
  std::uint64_t busy_cycles = 0;
  bool operator==(const BlockDesign&) const = default;
};

/// A FIFO of the design. Its instance is called "<stream>_fifo". In the emitted SystemVerilog, `<instance>.high_water`
/// is the largest number of beats that the FIFO contained.
struct FifoDesign {
  std::uint32_t unit = 0;        // index into the netlist's units
  std::uint64_t depth = 0;       // mr_fifo's parameter DEPTH, in beats; the FIFO stores one beat more
  std::uint64_t high_water = 0;  // predicted maximum number of stored beats
  bool operator==(const FifoDesign&) const = default;
};

/// A port of the dataflow module. Ports are called in0, in1, … and out0, out1, … in the program's order.
struct PortDesign {
  std::string name;
  std::string tensor;
  kernels::ElementType type;
  StreamIndex stream = 0;  // defines the lanes, bits and beats of the port
  bool operator==(const PortDesign&) const = default;
};

struct Design {
  std::string partition;            // the partition's name as an identifier
  std::vector<BlockDesign> blocks;  // one for each block of the program, in the same order
  Netlist netlist;                  // its memory files have content
  /// The device region of each unit. If empty, all units are in the first region.
  std::vector<std::uint32_t> regions;
  std::vector<FifoDesign> fifos;
  std::vector<PortDesign> inputs, outputs;
  Cost cost;    // cost of all instances in the dataflow module
  Cost loader;  // loader_cost(): a part of the shell that the device's description does not include
  Cost shell;   // shell_cost(), set by the planner when it knows the ports; not included in `cost`
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;       // cycles from a frame's first input beat to its last output beat
  std::uint64_t first_output_cycles = 0;  // cycles from the first input beat to the first output beat
  std::uint64_t multiply_accumulates = 0;
  bool operator==(const Design&) const = default;
};

struct AssembleOptions {
  bool memories = true;  // false: compute only costs and cycles, and leave memory files empty
  const Plugins* plugins = nullptr;
  /// The device region of each block. If empty, all blocks are in the first region. Ports are always in the first
  /// region. A stream to another region passes a register slice (mr_skid) in each region on its path, both ends
  /// included.
  std::vector<std::uint32_t> regions = {};
  /// Whether the design is simulated. If not, `interval_cycles` is that of the slowest block and the adapter before it,
  /// FIFOs have their minimum depth, and latencies are 0.
  bool play = true;
};

/// Builds the netlist of a partition, finds FIFO depths, and predicts cycles and cost. FIFOs are deep enough for the
/// interval and no deeper than they are ever filled. `program` has no host blocks, and its name becomes the partition's
/// name. `foldings` has one entry for each block. Errors are those of Generator.
Result<Design> assemble(const Catalog& catalog, const kernels::Program& program,
                        const std::vector<Folding>& foldings, const AssembleOptions& options = {});

/// Returns the cost of a design in each of the device's `count` regions. Errors are those of cost().
Result<std::vector<Cost>> region_costs(const Catalog& catalog, const Design& design, std::size_t count);

}  // namespace millrace::compiler::generators
