// The design of a partition: an implementation and a folding for each block, the whole netlist (blocks,
// adapters, forks, and FIFOs with computed depths), and the interval, latency and resources predicted for it.
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
  Cost cost;  // of its own units
  std::uint64_t interval_cycles =
      0;  // of the block alone; the design's is the largest of these or slightly more
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t busy_cycles = 0;  // cycles of the interval in which its multipliers work; 0 if it has none
  bool operator==(const BlockDesign&) const = default;
};

/// A FIFO. Its instance is called "<stream>_fifo"; in the emitted dataflow module `<instance>.high_water` is
/// the most beats it held.
struct FifoDesign {
  std::uint32_t unit = 0;        // index into the netlist's units
  std::uint64_t depth = 0;       // beats: mr_fifo's DEPTH (it holds one more)
  std::uint64_t high_water = 0;  // the most beats it is predicted to hold
  bool operator==(const FifoDesign&) const = default;
};

/// A port of the dataflow module: in0, in1, … and out0, out1, … in the order of the program's inputs and
/// outputs.
struct PortDesign {
  std::string name;
  std::string tensor;
  kernels::ElementType type;
  StreamIndex stream = 0;  // has lanes, bits and beats of the port
  bool operator==(const PortDesign&) const = default;
};

struct Design {
  std::string partition;            // an identifier
  std::vector<BlockDesign> blocks;  // one a block of the program, in its order
  Netlist netlist;                  // memory files with content
  std::vector<std::uint32_t>
      regions;  // the region of the device that each unit is in; empty: all in the first
  std::vector<FifoDesign> fifos;
  std::vector<PortDesign> inputs, outputs;
  Cost cost;    // of all instances of the dataflow
  Cost loader;  // loader_cost(): a part of the shell that the device's description does not count
  Cost shell;   // shell_cost(), set by the planner once it knows the ports; not a part of `cost`
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;       // first input beat to last output beat of a frame
  std::uint64_t first_output_cycles = 0;  // first input beat to first output beat
  std::uint64_t multiply_accumulates = 0;
  bool operator==(const Design&) const = default;
};

struct AssembleOptions {
  bool memories = true;  // false: costs and cycles only, memory files stay empty
  const Plugin* plugin = nullptr;
  /// The region of the device that each block is in; empty: all in the first. Ports are in the first. A
  /// stream between regions passes a register slice (mr_skid) in each region from its writer's to its reader's.
  std::vector<std::uint32_t> regions = {};
  /// False: no simulation. `interval_cycles` is then that of the slowest block, limited by the adapter before
  /// it; FIFOs have the least depth, and latencies are 0.
  bool play = true;
};

/// Builds the netlist of a partition, finds FIFO depths (enough for the interval, no more than is ever
/// filled), and predicts. `program` has no host blocks, and its name is the partition's; `foldings` has one a
/// block. Errors as Generator's.
Result<Design> assemble(const Catalog& catalog, const kernels::Program& program,
                        const std::vector<Folding>& foldings, const AssembleOptions& options = {});

/// The cost of a design in each of the device's `count` regions. Errors as cost()'s.
Result<std::vector<Cost>> region_costs(const Catalog& catalog, const Design& design, std::size_t count);

}  // namespace millrace::compiler::generators
