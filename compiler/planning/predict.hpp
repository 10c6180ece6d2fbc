// A solution of explore put together (relays inserted, weights placed, a folding for each block, a design for each
// partition), and its figures: interval, latency, resources, and what limits it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/explore/analysis.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/generators/generator.hpp"
#include "compiler/planning/lower.hpp"
#include "compiler/planning/partitions.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// What a search found. `solution` solves lowered->problem, or that problem after it was made harder.
struct Attempt {
  LoweredPtr lowered;
  explore::Solution solution;

  const explore::Problem& problem() const { return lowered->problem; }
  const kernels::Program& program() const { return lowered->program; }
  const runtime::plan::Cluster& cluster() const { return lowered->cluster; }
};

struct Placed {
  kernels::Program program;    // with relays, and each block's weights where they were chosen to be
  explore::Solution solution;  // of that program
  std::vector<kernels::Program> programs;  // of the solution's parts, by partition_programs()
  // Of each part's blocks, in the part's order. Empty on the host, and if one of the blocks has no hardware.
  std::vector<std::vector<generators::Folding>> foldings;
  Designs designs;  // of the parts with foldings; memories are left empty
  // Every design was played clock by clock. If not, its interval is that of the slowest block, fed no faster
  // than the adapter before it allows; FIFOs have the least depth.
  bool played = false;
};

/// Errors are those of generators and place_parameters().
Result<Placed> place(const Task& task, const Attempt& attempt);

/// The folding that was chosen for a block on a card; null if the block has no hardware.
const generators::Folding* chosen_folding(const Attempt& attempt, std::uint32_t block);

/// The device of a place of the solution.
const runtime::plan::Device& device_at(const Attempt& attempt, std::uint32_t place);

/// A bound on all plans: none is better.
struct Bound {
  // By the objective: the latency, or the interval of one replica divided by their number.
  double seconds = 0;
  double cards = 0;    // of all replicas
  bool exact = false;  // a solution reaches it
};

/// What a search finds without the plan file.
struct Unedited {
  std::uint64_t cards = 0;  // of all replicas
  double frames_per_second = 0, latency_seconds = 0;
};

/// A plan file was followed instead of a search.
struct Followed {
  std::optional<Unedited> unedited;  // nothing: a search finds no plan
};

/// An attempt with its figures. They are of the designs as they were played; of partitions without a design,
/// and if nothing was played, they are sums over blocks.
struct Predicted : Attempt {
  Placed placed;
  explore::Analysis analysis;
  Bound bound = {};                                  // the solution's gap is above it; of a searched plan
  double interval_seconds = 0, latency_seconds = 0;  // of one replica
  std::optional<Followed> followed = {};

  std::size_t replicas() const { return solution.replicas(); }
  std::size_t cards() const { return solution.card.size() * replicas(); }  // of all replicas
  double frames_per_second() const {                                       // of all replicas
    return interval_seconds > 0 ? static_cast<double>(replicas()) / interval_seconds : 0;
  }
};

struct Judgement {
  double gap = 0;
  bool exact = false;
};

/// How far the plan may be from the best, by its bound and these figures.
Judgement judge(const Predicted& plan, double interval_seconds, double latency_seconds);

/// Errors as cost()'s and passages()'.
Result<Predicted> predict(const Task& task, Attempt attempt, Placed placed);

/// The latency of a frame through all parts, whose designs were played, and over the cables, in packets. The
/// host's time between cards counts.
Result<double> played_latency(const Predicted& plan);

/// Where the weights of a block on a card will be. Weights to be streamed are loaded if the block has no
/// hardware that streams them.
kernels::Placement placement_of(const Attempt& attempt, std::uint32_t block);

/// The analysis with its bottleneck and what would lift it.
explore::Analysis explained(const Predicted& plan);

}  // namespace millrace::compiler
