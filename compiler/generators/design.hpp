// The Design of a partition: for each block an implementation and its folding, and the whole netlist that
// makes: blocks, adapters, forks and FIFOs with computed depths; with the interval and latency it will have
// and what it takes.
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
  Cost cost;                          // of its own units
  std::uint64_t interval_cycles = 0;  // alone; the design's is the largest or slightly more
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t busy_cycles = 0;  // of the interval, in which its multipliers work; 0 where it has none
  bool operator==(const BlockDesign&) const = default;
};

/// A FIFO: unit and stream have one name, "<stream>_fifo" is the instance. In the emitted dataflow module its
/// high-water register is `<instance>.high_water`.
struct FifoDesign {
  std::uint32_t unit = 0;        // index into the netlist's units
  std::uint64_t depth = 0;       // beats: mr_fifo's DEPTH (it holds one more)
  std::uint64_t high_water = 0;  // predicted: most beats held
  bool operator==(const FifoDesign&) const = default;
};

/// in0, in1, … and out0, out1, … of the dataflow module, in the order of the program's inputs and outputs.
struct PortDesign {
  std::string name;
  std::string tensor;
  kernels::ElementType type;
  StreamIndex stream = 0;  // lanes, bits and beats of the port
  bool operator==(const PortDesign&) const = default;
};

struct Design {
  std::string partition;               // an identifier
  std::vector<BlockDesign> blocks;     // one a block of the program, in its order
  Netlist netlist;                     // memory files with content
  std::vector<std::uint32_t> regions;  // of the device, where each unit stands; empty: all in the first
  std::vector<FifoDesign> fifos;
  std::vector<PortDesign> inputs, outputs;
  Cost cost;    // of all instances of the dataflow; the shell is the device's
  Cost loader;  // loader_cost(): the shell's too, and not among what the device gives for it
  Cost shell;   // shell_cost(), where the planner says which ports it has; not among `cost`
  std::uint64_t interval_cycles = 0;
  std::uint64_t latency_cycles = 0;       // first input beat to last output beat of a frame
  std::uint64_t first_output_cycles = 0;  // first input beat to first output beat
  std::uint64_t multiply_accumulates = 0;
  bool operator==(const Design&) const = default;
};

struct AssembleOptions {
  bool memories = true;  // false: costs and cycles only, memory files stay empty
  const Plugin* plugin = nullptr;
  /// Of the device, where each block stands; empty: all in the first. Ports are in the first. A stream from
  /// one to another passes a register slice (mr_skid) in each region on its way, both ends included.
  std::vector<std::uint32_t> regions = {};
  /// False: nothing is played. `interval_cycles` is that of the slowest block, fed no faster than the adapter
  /// before it does; FIFOs have the least depth, and latencies are 0.
  bool play = true;
};

/// Builds the netlist of `program` (one partition, its name the partition's; no host blocks) with a folding a
/// block, finds FIFO depths (enough for the interval, no more than are ever filled), and predicts. Errors as
/// Generator's.
Result<Design> assemble(const Catalog& catalog, const kernels::Program& program,
                        const std::vector<Folding>& foldings, const AssembleOptions& options = {});

/// What a design takes of each of the device's `count` regions. Errors as cost()'s.
Result<std::vector<Cost>> region_costs(const Catalog& catalog, const Design& design, std::size_t count);

}  // namespace millrace::compiler::generators
