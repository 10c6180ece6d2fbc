// Completes a solution of compiler/explore: inserts relays (blocks that forward tensors through a card), places
// weights, looks up each block's folding and makes each partition's design. Then computes interval, latency, resources
// and bottleneck.
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

/// The result of a search. `solution` solves lowered->problem, or the same problem with smaller budgets or stricter
/// targets.
struct Attempt {
  LoweredPtr lowered;
  explore::Solution solution;

  const explore::Problem& problem() const { return lowered->problem; }
  const kernels::Program& program() const { return lowered->program; }
  const runtime::plan::Cluster& cluster() const { return lowered->cluster; }
};

struct Placed {
  kernels::Program program;                // with relays, and with each block's weights in the chosen memory
  explore::Solution solution;              // the solution for `program`
  std::vector<kernels::Program> programs;  // the programs of the solution's parts, from partition_programs()
  // The foldings (degrees of parallelism) of each partition's blocks. Empty if the partition is on the host or contains
  // a block without hardware.
  std::vector<std::vector<generators::Folding>> foldings;
  Designs designs;  // the designs of the parts that have foldings; the contents of their memories are empty
  // Whether every design was simulated clock by clock. If not, a design's interval is that of its slowest block or
  // of a slower adapter before it, and FIFOs have their minimum depth.
  bool played = false;
};

/// Puts the partitions of an attempt (the result of a search) together. Errors are those of the generators and of
/// place_parameters().
Result<Placed> place(const Task& task, const Attempt& attempt);

/// Returns the folding (the parallelism) chosen for a block on a card, or null if the block has no hardware.
const generators::Folding* chosen_folding(const Attempt& attempt, std::uint32_t block);

/// Returns the device of the card at a position in the solution's pipeline.
const runtime::plan::Device& device_at(const Attempt& attempt, std::uint32_t place);

/// A bound that no plan can beat.
struct Bound {
  // A lower bound on the latency if latency is the objective. Otherwise a lower bound on the interval of one replica
  // divided by the number of replicas.
  double seconds = 0;
  double cards = 0;    // number of cards of all replicas
  bool exact = false;  // whether some solution reaches the bound
};

/// The figures of the plan that a search would find without the plan file.
struct Unedited {
  std::uint64_t cards = 0;  // number of cards of all replicas
  double frames_per_second = 0, latency_seconds = 0;
};

/// Marks a plan that was read from a plan file instead of searched.
struct Followed {
  std::optional<Unedited> unedited;  // empty if a search finds no plan
};

/// An attempt (the result of a search) with its figures, which come from the simulation of its designs. For partitions
/// without a design or without a simulation, the figures are sums over blocks.
struct Predicted : Attempt {
  Placed placed;
  explore::Analysis analysis;
  Bound bound = {};  // reference of the solution's gap; set if a search found it
  double interval_seconds = 0, latency_seconds = 0;  // interval and latency of one replica
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

/// Returns by how much a plan with these figures may be worse than the best plan, judged by `plan.bound`, which no plan
/// can beat.
Judgement judge(const Predicted& plan, double interval_seconds, double latency_seconds);

/// Computes the figures of an attempt (the result of a search). Errors are those of cost() and passages().
Result<Predicted> predict(const Task& task, Attempt attempt, Placed placed);

/// Returns a frame's latency through all partitions and over the cables, on which tensors travel in packets. All
/// partitions on cards must have simulated designs. The latency includes the host's time between cards.
Result<double> played_latency(const Predicted& plan);

/// Returns for each partition of the placed solution when its last output word leaves, in seconds after a frame's first
/// word enters the first card. If the designs were not simulated, these times are sums over blocks. Times of partitions
/// on the host are 0. Errors are those of passages().
Result<std::vector<double>> last_outputs(const Predicted& plan);

/// Returns the time that the host works on each partition of the placed solution, in seconds; 0 for partitions on
/// cards, and for the host's work before the first card and after the last card.
std::vector<double> host_times(const Predicted& plan);

/// Returns where the weights of a block on a card are stored. If weights should be streamed but the block has no
/// hardware for streaming, the weights are loaded.
kernels::Placement placement_of(const Attempt& attempt, std::uint32_t block);

/// Returns the plan's analysis, with sentences about the bottleneck and about what would raise the rate.
explore::Analysis explained(const Predicted& plan);

}  // namespace millrace::compiler
