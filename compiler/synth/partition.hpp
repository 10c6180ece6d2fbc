// Synthesises a partition's emitted SystemVerilog with Yosys, and compares the measured resources of each instance with
// the predicted ones.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/generators/cost.hpp"
#include "compiler/synth/yosys.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::synth {

/// An instance of a library module anywhere in the partition's hierarchy.
struct EmittedInstance {
  std::string name;    // path below the dataflow or the top: "conv_5_mvu"
  std::string block;   // empty for units between blocks
  std::string region;  // empty for the device's first region
  bool shell = false;  // true outside of the dataflow
  std::string module;  // name of the module in the cost model, with its parameters there
  generators::Parameters parameters;
  SynthesisJob job;
};

/// The work of a block for one frame, from design.json.
struct BlockWork {
  std::string block;
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t busy_cycles = 0;  // cycles in which the block's multipliers work
};

/// A region of the device and the resources used in it. The shell and the logic between instances count to the first
/// region.
struct RegionUse {
  std::string name;
  runtime::plan::Resources whole;  // resources of the region before the shell is deducted
  generators::Cost measured = {};
};

/// The facts about a partition in its design.json.
struct PartitionFacts {
  std::string partition, device;
  std::uint64_t interval_cycles = 0;   // predicted; 0: not in design.json
  runtime::plan::Resources available;  // resources that the dataflow may use; all zero: unknown
  std::vector<RegionUse> regions;      // the partition's regions, still unused; empty: unknown
};

struct EmittedPartition : PartitionFacts {
  std::vector<BlockWork> blocks;
  std::vector<EmittedInstance> instances;
  // An upper bound for gates and registers between instances, which assumes a LUT for each bit of a gate.
  generators::Cost glue;
};

/// Reads `folder` (rtl/<partition>). Yosys finds the hierarchy in the sources. `family`, unless empty, replaces the
/// family in design.json. Returns kInvalidInput if the folder is not as compiler/emit/rtl/README.md says, and
/// kUnsupported for an unknown family.
Result<EmittedPartition> read_partition(const Yosys& yosys, const std::filesystem::path& folder,
                                        const std::string& family = {});

struct InstanceCost : EmittedInstance {
  generators::Cost measured, predicted;
};

/// How well a block that multiplies in DSP slices uses them, in multiply-accumulates per slice and cycle.
struct LayerUse {
  std::string block;
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t dsp = 0;  // measured DSP slices of all instances of the block
  double per_interval = 0,
         per_busy = 0;  // over the predicted interval, and over the cycles in which its multipliers work
};

struct PartitionCost : PartitionFacts {
  std::vector<InstanceCost> instances;
  generators::Cost dataflow, dataflow_predicted;
  generators::Cost shell, shell_predicted;  // only `shell` includes the logic between instances
  std::vector<LayerUse> layers;
  LayerUse all_layers;  // all layers together

  generators::Cost whole() const { return dataflow + shell; }
  generators::Cost whole_predicted() const { return dataflow_predicted + shell_predicted; }
};

/// Synthesises all instances, adds up their costs and compares them with their predictions. Returns the errors of
/// synthesise().
Result<std::vector<PartitionCost>> synthesise_partitions(const Yosys& yosys, const Cache& cache,
                                                         const generators::Catalog& catalog,
                                                         const std::vector<EmittedPartition>& partitions,
                                                         const SynthesisOptions& options = {});

/// Returns a sentence for each exceeded resource whose limit is known. Makes three comparisons: the resources of the
/// dataflow with those that the shell leaves; the resources of dataflow and shell together with those of all regions;
/// and, if there are several regions, the instances in each region with the resources of this region. The platform's
/// part of the shell (its size is in the device file) belongs to the shell in the first comparison only.
std::vector<std::string> exceeded(const PartitionCost& partition);

}  // namespace millrace::compiler::synth
