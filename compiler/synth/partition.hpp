// Synthesises a partition's emitted SystemVerilog with Yosys, and compares the resources of each instance
// with the prediction.
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

/// An instance of a library module, anywhere in the hierarchy.
struct EmittedInstance {
  std::string name;    // below the dataflow or the top: "conv_5_mvu"
  std::string block;   // empty for units between blocks
  std::string region;  // empty for the first
  bool shell = false;  // outside of the dataflow
  std::string module;  // in the cost model, and its parameters there
  generators::Parameters parameters;
  SynthesisJob job;
};

/// The work of a block for one frame, from design.json.
struct BlockWork {
  std::string block;
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t busy_cycles = 0;  // in which its multipliers work
};

/// A region of the device and its use. The shell and the logic between instances count to the first region.
struct RegionUse {
  std::string name;
  runtime::plan::Resources whole;  // before the shell
  generators::Cost measured = {};
};

/// The facts of a partition in its design.json.
struct PartitionFacts {
  std::string partition, device;
  std::uint64_t interval_cycles = 0;   // predicted; 0: design.json has no figure
  runtime::plan::Resources available;  // for the dataflow; all zero: unknown
  std::vector<RegionUse> regions;      // those it is in, with no use yet; empty: unknown
};

struct EmittedPartition : PartitionFacts {
  std::vector<BlockWork> blocks;
  std::vector<EmittedInstance> instances;
  // An upper bound for gates and registers between instances: a LUT for each bit of a gate.
  generators::Cost glue;
};

/// Reads `folder` (rtl/<partition>); Yosys finds the hierarchy in the sources. `family`, if given, replaces
/// the folder's. kInvalidInput if the folder is not as compiler/emit/rtl/README.md says; kUnsupported for an
/// unknown family.
Result<EmittedPartition> read_partition(const Yosys& yosys, const std::filesystem::path& folder,
                                        const std::string& family = {});

struct InstanceCost : EmittedInstance {
  generators::Cost measured, predicted;
};

/// A block that multiplies in DSP slices, and its use of them: multiply-accumulates per slice and cycle.
struct LayerUse {
  std::string block;
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t dsp = 0;  // measured, of all its instances
  double per_interval = 0,
         per_busy = 0;  // over the predicted interval, and over the cycles its multipliers work
};

struct PartitionCost : PartitionFacts {
  std::vector<InstanceCost> instances;
  generators::Cost dataflow, dataflow_predicted;
  generators::Cost shell, shell_predicted;  // with the glue, which is not predicted
  std::vector<LayerUse> layers;
  LayerUse all_layers;  // together

  generators::Cost whole() const { return dataflow + shell; }
  generators::Cost whole_predicted() const { return dataflow_predicted + shell_predicted; }
};

/// Synthesises all instances, adds them up and compares them with their predictions. Errors as synthesise().
Result<std::vector<PartitionCost>> synthesise_partitions(const Yosys& yosys, const Cache& cache,
                                                         const generators::Catalog& catalog,
                                                         const std::vector<EmittedPartition>& partitions,
                                                         const SynthesisOptions& options = {});

/// A text for each resource that is exceeded: by the dataflow beside the shell, by the partition with its
/// shell in all its regions, or in one of several regions. Empty if all fits or nothing is known. Only the
/// first comparison includes the platform that a device's file counts to its shell.
std::vector<std::string> exceeded(const PartitionCost& partition);

}  // namespace millrace::compiler::synth
