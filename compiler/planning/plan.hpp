// What a model becomes on a cluster, before anything is built: which blocks on which card, in what folding,
// how fast, and why. `compile` builds exactly this.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/front/read_model.hpp"
#include "compiler/generators/plugin.hpp"
#include "compiler/planning/candidates.hpp"
#include "compiler/planning/partitions.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler {

/// A block that is built as several, each with a part of its output channels.
struct Split {
  std::string block;
  std::uint32_t parts = 2;
  bool operator==(const Split&) const = default;
};

/// Which plans are played clock by clock.
enum class Play : std::uint8_t {
  kNone,
  kWhereQuick,  // where it takes less than a second
  kAll,         // even where it takes minutes; compile() does
};

struct PlanOptions : ModelOptions {
  std::filesystem::path cluster;
  std::optional<std::uint32_t> partitions;  // cards (of each replica), exactly; default: chosen
  std::optional<std::uint32_t> replicas;    // pipelines, each on cards of its own; default: chosen
  explore::Targets targets;
  explore::Shares shares = explore::kDefaultShares;
  std::optional<kernels::Placement> weights;  // of every block that has any; default: chosen
  // What is chosen where `weights` is not given: all in the images, and only where the model does not fit so,
  // or reaches the target with layers split, of each layer what is best, there or streamed from the card's
  // memory; or that always.
  bool baked_first = true;
  std::filesystem::path plan;            // a plan file that is followed instead of a search
  bool no_host = false;                  // refused where the host would do more than convert
  std::vector<std::string> host_blocks;  // to run on the host, by name
  std::optional<double> host_seconds;  // what each block between cards takes there; default: the catalogue's
  std::filesystem::path generator_plugin;                            // a program that offers candidates too
  std::chrono::milliseconds plugin_time = std::chrono::seconds(30);  // each of its calls may take
  Play play = Play::kWhereQuick;
  std::vector<Split> splits;  // asked for; others are made where a layer does not fit or limits
};

/// A block that the host runs, and what it takes of a processor's core.
struct HostBlock {
  std::string block;
  double seconds = 0;
  bool between = false;  // cards: it counts in the latency
};

/// What a search would have found where a plan file was followed.
struct Unedited {
  std::uint64_t cards = 0;  // of all replicas
  double frames_per_second = 0, latency_seconds = 0;
};

/// The best for one number of cards by one objective.
struct Alternative {
  std::uint32_t cards = 0;     // of all replicas
  std::uint32_t replicas = 1;  // equal shares of the cards each
  explore::Objective objective = explore::Objective::kThroughput;
  double interval_seconds = 0, latency_seconds = 0;  // of one replica, added up from blocks
  explore::Amounts used{};  // of all blocks of all replicas; [kMemoryBytes]: bytes a frame
  bool exact = false;
  double frames_per_second() const { return replicas / interval_seconds; }
};

/// Nothing the search looked for is better than this. By the objective: a latency, or the interval of one
/// replica by their number; in seconds.
struct Bound {
  double seconds = 0;
  double cards = 0;    // of all replicas
  bool exact = false;  // there is a solution that reaches it
};

struct Plan {
  runtime::plan::ModelInfo model;
  std::string assumed;  // "int8" where the model was float; such a plan cannot be built
  runtime::plan::Cluster cluster;
  std::vector<std::string> notes;  // where the integers may differ from the float model: "pool: averages …"

  // The model's program as it was explored, blocks split; where weights are chosen, all in the images.
  std::vector<Split> splits;
  std::vector<std::string> host_blocks;  // by name: asked for, in the plan file, or for want of hardware
  kernels::Program program;
  explore::Problem problem;
  explore::Solution solution;
  Bound bound;  // what the solution's gap is measured from; of a searched plan
  // Its gap is above the best of plans with the same splits, and with:
  std::optional<kernels::Placement> weights_given;  // all weights there; nothing: wherever that is best
  bool loader = false;                              // room on every card for what loads constants
  Candidates candidates;
  HostPorts ports;                             // what candidates are charged for them
  std::shared_ptr<generators::Plugin> plugin;  // null: none
  std::string unpredicted;  // why there is no prediction; then only `solution`'s cuts are meaningful
  explore::Analysis analysis;
  std::vector<generators::Extrapolation> extrapolated;  // what of its resources no measurement stands behind
  bool followed = false;                                // a plan file, instead of a search
  std::optional<Unedited> unedited;                     // nothing too where a search finds nothing
  std::vector<HostBlock> host;

  // As it will be built: weights where they were chosen to be, with the blocks that pass tensors on through
  // cards, a folding for each block of a part on cards, and where it was affordable each part's design,
  // without memories.
  kernels::Program placed_program;
  explore::Solution placed;
  std::vector<std::vector<generators::Folding>> foldings;  // of a part's blocks; empty: no hardware
  Designs designs;

  // Every partition was played clock by clock. Else the interval is that of the slowest block, fed no faster
  // than the adapter before it does, the latency is added up, and FIFOs have the least depth.
  bool played = false;
  double interval_seconds = 0, latency_seconds = 0;  // of one replica
  std::vector<StepTime> steps;
  double exploration_ms = 0;  // reading, importing, lowering, choosing, however often that was repeated
  double prediction_ms = 0;   // playing the partitions of every plan that was looked at

  // Only where add_alternatives() was asked for.
  std::vector<Alternative> alternatives;
  std::string alternatives_left_out;  // why there are none, or not all

  std::size_t replicas() const { return solution.replicas(); }
  std::size_t cards() const { return solution.card.size() * replicas(); }  // of all replicas
  double frames_per_second() const {                                       // of all replicas
    return interval_seconds > 0 ? static_cast<double>(replicas()) / interval_seconds : 0;
  }
};

/// Where the weights of a block of `program` will be, which stands on a card and was predicted: those that
/// are to be streamed where there is no hardware for it are loaded. Baked too where it has none.
kernels::Placement placement_of(const Plan& plan, std::uint32_t block);

/// Errors are those of reading, importing, lowering and explore::solve(); kInvalidInput too where options
/// contradict themselves.
Result<Plan> make_plan(const PlanOptions& options);

}  // namespace millrace::compiler
