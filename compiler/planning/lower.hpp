// What a plan is asked for, and the model stated as a problem for compiler/explore: blocks split, host blocks
// chosen, candidates generated.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "compiler/front/read_model.hpp"
#include "compiler/front/steps.hpp"
#include "compiler/generators/catalog.hpp"
#include "compiler/generators/plugin.hpp"
#include "compiler/planning/candidates.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

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
  kWhereQuick,  // if playing takes less than a second
  kAll,         // even if playing takes minutes; compile() needs it
};

struct PlanOptions : ModelOptions {
  std::filesystem::path cluster;
  std::optional<std::uint32_t> partitions;  // cards of each replica, exactly; default: chosen
  std::optional<std::uint32_t> replicas;    // pipelines, each on cards of its own; default: chosen
  explore::Targets targets;
  explore::Shares shares = explore::kDefaultShares;
  std::optional<kernels::Placement> weights;  // of every block that has weights; default: chosen
  // Read only if `weights` is not given. True: the weights are in the images, and are streamed from the
  // card's memory only if the model does not fit, or reaches its target only with layers split. False: each
  // layer's weights are placed where that is best.
  bool baked_first = true;
  std::filesystem::path plan;            // a plan file that is followed instead of a search
  bool no_host = false;                  // refuse a plan in which the host does more than convert
  std::vector<std::string> host_blocks;  // names of blocks to run on the host
  std::optional<double> host_seconds;  // the time of each host block between cards; default: the catalogue's
  std::filesystem::path generator_plugin;                            // a program that offers candidates too
  std::chrono::milliseconds plugin_time = std::chrono::seconds(30);  // each of its calls may take
  Play play = Play::kWhereQuick;
  std::vector<Split> splits;  // asked for; others are made if a layer does not fit or limits the rate
};

/// Whether the options ask for figures: targets, an objective other than the default, or a plan file.
bool needs_prediction(const PlanOptions& options);

/// What all alternatives that are tried for one plan share.
struct Task {
  const PlanOptions& options;
  Steps& steps;
  Model model;  // blocks not split; weights placed as the options say, in the images by default
  runtime::plan::Cluster cluster;
  generators::Catalog catalog;
  std::shared_ptr<generators::Plugin> plugin;  // null: none
  bool explains = true;                        // say why a search finds nothing, which takes longer
};

/// How an alternative differs from the model as it was read.
struct Changes {
  std::vector<Split> splits;
  std::vector<std::string> host_blocks;  // names; asked for, in the plan file, or for want of hardware
  bool streamed = false;                 // layers may also be built with their weights in the card's memory
  bool hardware = true;                  // false: every block is emulated, at its estimated speed
};

/// A block that the host runs.
struct HostBlock {
  std::string block;
  double seconds = 0;    // of one core, for each frame
  bool between = false;  // it runs between cards: its time counts in the latency
};

struct Lowered {
  Changes changes;
  runtime::plan::Cluster cluster;
  kernels::Program program;  // with blocks split; weights that may be placed freely are in the images
  explore::Problem problem;
  Candidates candidates;
  std::vector<HostBlock> host;
  // The placement that all weights have; nothing: each layer's placement is chosen.
  std::optional<kernels::Placement> weights_given;
  bool loader = false;  // every card has room for the unit that loads constants (mr_parameters)
};

/// Alternatives share a Lowered.
using LoweredPtr = std::shared_ptr<const Lowered>;

/// kInvalidInput: a split that cannot be made. Else the errors of generators and plugin.
Result<LoweredPtr> lower(const Task& task, Changes changes);

/// Fills the candidates of a lowered program and its problem's implementations; operation i is block i of the program.
/// candidates.ports is set. Each implementation is charged for what joins the block to those before it (a FIFO at each
/// input, and an adapter where lanes may differ) and for its ports to the host.
///
/// A block without candidates is emulated. Its one implementation takes nothing of a card and is as slow as
/// kernels/fast is on the host, because an emulated card computes with that.
Status add_candidates(const Task& task, Lowered& lowered);

/// The problem's cards as lower() has them: `loader` says whether the unit that loads constants takes its
/// room on every card.
Result<std::vector<explore::Card>> cards_of(const Task& task, const kernels::Program& program, bool loader);

/// Whether a card has memory to stream weights from, and a layer has hardware that does so.
bool can_stream(const Lowered& lowered);

/// Refuses what the host may not or cannot do. kInvalidInput: --host names a block that does not exist.
/// kDoesNotFit: the host is too slow for the target rate, or would have to do what --no-host forbids.
Status check_host(const PlanOptions& options, const Lowered& lowered);

/// "a, b, c"
std::string joined(const std::vector<std::string>& names);

}  // namespace millrace::compiler
