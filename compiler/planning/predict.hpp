// The figures of a plan: interval, latency, resources, and what limits it.
#pragma once

#include <cstdint>

#include "compiler/explore/analysis.hpp"
#include "compiler/planning/place.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Nothing that a search looks for is better than this.
struct Bound {
  // By the objective: the latency, or the interval of one replica divided by their number.
  double seconds = 0;
  double cards = 0;    // of all replicas
  bool exact = false;  // a solution reaches it
};

/// An attempt with its figures. They are of the designs as they were played; of partitions without a design,
/// and if nothing was played, they are sums over blocks.
struct Predicted : Attempt {
  Placed placed;
  explore::Analysis analysis;
  Bound bound = {};                                  // the solution's gap is above it; of a searched plan
  double interval_seconds = 0, latency_seconds = 0;  // of one replica

  std::size_t replicas() const { return solution.replicas(); }
  std::size_t cards() const { return solution.card.size() * replicas(); }  // of all replicas
  double frames_per_second() const {                                       // of all replicas
    return interval_seconds > 0 ? static_cast<double>(replicas()) / interval_seconds : 0;
  }
};

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
