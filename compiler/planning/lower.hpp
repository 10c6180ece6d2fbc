// The options of a plan, and the step that states the model as a problem for compiler/explore.
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
#include "compiler/generators/plugins.hpp"
#include "compiler/planning/candidates.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler {

/// A block that is built as several blocks, each with a part of the output channels.
struct Split {
  std::string block;
  std::uint32_t parts = 2;
  bool operator==(const Split&) const = default;
};

/// Which plans are simulated clock by clock ("played").
enum class Play : std::uint8_t {
  kNone,
  kWhereQuick,  // plans whose simulation takes less than a second
  kAll,         // all plans, even if the simulation takes minutes; compile() needs this
};

struct PlanOptions : ModelOptions {
  std::filesystem::path cluster;
  std::optional<std::uint32_t> partitions;  // exact number of cards of each replica; default: chosen
  std::optional<std::uint32_t> replicas;    // copies of the pipeline, each on its own cards; default: chosen
  explore::Targets targets;
  explore::Shares shares = explore::kDefaultShares;
  std::optional<kernels::Placement> weights;  // where all blocks store their weights; default: chosen
  // Whether weights in the FPGA images are preferred; ignored if `weights` is set. If true, weights are streamed from
  // the card's memory only if the model otherwise does not fit, or reaches its target only with layers split. If false,
  // the search chooses the best memory for each layer's weights.
  bool baked_first = true;
  std::filesystem::path plan;            // a plan file that replaces the search
  bool no_host = false;                  // refuse a plan in which the host does more than convert
  std::vector<std::string> host_blocks;  // names of blocks to run on the host
  std::optional<double> host_seconds;  // the time of each host block between cards; default: the catalogue's
  std::vector<std::filesystem::path> plugins;                        // programs that offer more candidates
  std::chrono::milliseconds plugin_time = std::chrono::seconds(30);  // time limit of each call of a plugin
  Play play = Play::kWhereQuick;
  std::vector<Split> splits;  // from the user; more are made if a layer does not fit or limits the rate
};

/// Whether the options need predicted figures: they have targets, a plan file, or an objective other than the default.
bool needs_prediction(const PlanOptions& options);

/// The inputs that are the same for all alternatives that are tried for one plan.
struct Task {
  const PlanOptions& options;
  Steps& steps;
  Model model;  // blocks not split; weights stored as the options say, by default in the FPGA images
  runtime::plan::Cluster cluster;
  generators::Catalog catalog;
  std::shared_ptr<generators::Plugins> plugins;  // null if there is none
  bool explains = true;                          // explain why a search finds nothing, which takes longer
};

/// How a variant of the model, which planning tries as an alternative, differs from the model in the file.
struct Changes {
  std::vector<Split> splits;
  std::vector<std::string> host_blocks;  // names of blocks that the options, the plan file or a lack of
                                         // hardware put on the host
  bool through_host = false;             // tensors that pass beside host blocks go through the host
  bool streamed = false;                 // layers may also be built with their weights in the card's memory
  bool hardware = true;                  // false: every block is emulated, at its estimated speed
};

/// A block that the host runs.
struct HostBlock {
  std::string block;
  double seconds = 0;    // time of one processor core for each frame
  bool between = false;  // the block runs between two cards, so its time is part of the latency
};

/// A model stated as a problem for explore. Several alternatives can share it.
struct Lowered {
  Changes changes;
  runtime::plan::Cluster cluster;
  kernels::Program program;  // with blocks split; weights whose memory is not fixed are in the FPGA images
  explore::Problem problem;
  Candidates candidates;
  std::vector<HostBlock> host;
  // Where all weights are stored. If not set, the search chooses a place for each layer's weights.
  std::optional<kernels::Placement> weights_given;
  bool loader = false;  // room for the unit that loads constants (mr_parameters) is reserved on every card
};

using LoweredPtr = std::shared_ptr<const Lowered>;

/// States the model with `changes` as a problem for explore. kInvalidInput: a split is impossible. Other errors come
/// from the generators and the plugins.
Result<LoweredPtr> lower(const Task& task, Changes changes);

/// Sets the candidates of a lowered program and the implementations of its problem. Operation i of the problem is
/// block i of the program; candidates.ports must be set. The resources of an implementation include a FIFO at each
/// input, an adapter where the number of lanes may differ, and ports to the host.
///
/// A block without candidates is emulated. It gets one implementation that uses no resources of a card and takes
/// the time that kernels/fast takes on the host, because an emulated card computes with kernels/fast.
Status add_candidates(const Task& task, Lowered& lowered);

/// Returns the problem's cards. If `loader`, subtracts room for the unit that loads constants from every card's budget.
Result<std::vector<explore::Card>> cards_of(const Task& task, const kernels::Program& program, bool loader);

/// Whether some card has memory to stream weights from, and some layer has hardware that streams its weights.
bool can_stream(const Lowered& lowered);

/// Checks the blocks that run on the host. kInvalidInput: --host names a block that does not exist. kDoesNotFit: the
/// host is too slow for the target rate, or the model needs the host although --no-host is set.
Status check_host(const Task& task, const Lowered& lowered);

/// Joins the names with commas: "a, b, c".
std::string joined(const std::vector<std::string>& names);

}  // namespace millrace::compiler
