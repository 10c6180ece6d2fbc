// A partition's emitted SystemVerilog (compiler/emit/rtl) through Yosys: what each instance takes, beside
// what was predicted.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/generators/cost.hpp"
#include "compiler/synth/yosys.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::synth {

/// An instance of a module of the library, wherever in the hierarchy.
struct EmittedInstance {
  std::string name;    // below the dataflow or the top: "conv_5_mvu"
  std::string block;   // "" for what joins blocks
  std::string region;  // where it stands; "" for the first
  bool shell = false;  // around the dataflow
  SynthesisJob job;
  // A module written for this partition: what the cost model calls it, and with which counts. Else empty.
  std::string model;
  generators::Parameters counts;
};

/// What design.json says a block does in a frame.
struct BlockWork {
  std::string block;
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t busy_cycles = 0;  // in which its multipliers work
};

/// A region of the device, and what of it is taken, the shell and what joins instances counted to the first.
struct RegionUse {
  std::string name;
  runtime::plan::Resources whole;  // before the shell
  generators::Cost measured = {};
};

struct EmittedPartition {
  std::string partition, device;
  std::uint64_t interval_cycles = 0;  // predicted; 0 where design.json does not say
  std::vector<BlockWork> blocks;
  runtime::plan::Resources available;  // for the dataflow: all zero where it is not known
  std::vector<RegionUse> regions;      // those it stands in, nothing used; empty where they are not known
  std::vector<EmittedInstance> instances;
  generators::Cost glue;  // of gates and registers between instances, at most: a LUT a bit of each gate
};

/// Reads `folder` (rtl/<partition>). The hierarchy is Yosys' reading of the sources. kInvalidInput where it
/// is not what compiler/emit/rtl/README.md says; kUnsupported for a family that is not for synthesis.
/// `family`: instead of the folder's.
Result<EmittedPartition> read_partition(const Yosys& yosys, const std::filesystem::path& folder,
                                        const std::string& family = {});

struct InstanceCost {
  std::string name, module, block;
  bool shell = false;
  generators::Parameters parameters;
  generators::Cost measured, predicted;
};

/// A block that multiplies in DSP slices, and how well it uses them: multiply-accumulates a slice and cycle.
struct LayerUse {
  std::string block;
  std::uint64_t multiply_accumulates = 0;
  std::uint64_t dsp = 0;                  // measured, of all its instances
  double per_interval = 0, per_busy = 0;  // over the predicted interval, and the cycles its multipliers work
};

struct PartitionCost {
  std::string partition, device;
  runtime::plan::Resources available;
  std::vector<RegionUse> regions;
  std::vector<InstanceCost> instances;
  generators::Cost dataflow, dataflow_predicted;
  generators::Cost shell, shell_predicted;  // what is around it, with the glue (which is not predicted)
  std::uint64_t interval_cycles = 0;        // predicted
  std::vector<LayerUse> layers;
  LayerUse all_layers;  // together

  generators::Cost whole() const { return sum(dataflow, shell); }
  generators::Cost whole_predicted() const { return sum(dataflow_predicted, shell_predicted); }

 private:
  static generators::Cost sum(generators::Cost a, const generators::Cost& b) { return a += b; }
};

struct SynthesisOptions {
  unsigned jobs = 0;  // runs of Yosys at once; 0: as many as processors
  /// After each run, from one thread at a time: distinct instances done, of how many.
  std::function<void(std::size_t done, std::size_t of)> progress;
};

/// Equal instances once, those the cache has not at all. Errors as synthesise(); the first one ends it, once
/// the runs under way have ended.
Result<std::vector<PartitionCost>> synthesise_partitions(const Yosys& yosys, const Cache& cache,
                                                         const generators::Catalog& catalog,
                                                         const std::vector<EmittedPartition>& partitions,
                                                         const SynthesisOptions& options = {});

/// The resources of which the dataflow takes more than is left beside the shell, the partition with its shell
/// more than its regions have, or what stands in one of several regions more than that has; empty where all
/// fits or nothing is known. A platform that a device's file counts to its shell is in the first comparison
/// only.
std::vector<std::string> exceeded(const PartitionCost& partition);

}  // namespace millrace::compiler::synth
