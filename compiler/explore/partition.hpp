// Decides where each operation runs and how it is built: cuts the layers into contiguous partitions, assigns a card to
// each partition, and chooses an implementation for each operation. All functions here are pure.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "compiler/explore/problem.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::explore {

using runtime::plan::kMostReplicas;

/// Operations that run together: those of one stage on one card, or of one stage on the host. (A new stage begins
/// whenever the frame moves between host and cards.)
struct Part {
  bool host = false;
  std::uint32_t place = 0;  // position of its card in the pipeline, from 0; 0 on the host
  std::uint32_t stage = 0;
  std::vector<std::uint32_t> operations;  // indices of the part's operations, ascending
  bool operator==(const Part&) const = default;
};

/// A tensor that goes over a cable from one card to another. `from` and `to` are positions in the pipeline.
struct Hop {
  std::uint32_t tensor = 0, from = 0, to = 0;
  bool operator==(const Hop&) const = default;
};

struct Solution {
  std::vector<Part> parts;           // in topological order
  std::vector<std::uint32_t> card;   // position in the pipeline -> index of the card in the problem
  std::uint64_t crossing_bytes = 0;  // bytes a frame, summed over all cuts that each tensor crosses

  // The next fields are empty or 0 if the model was cut without choosing implementations.
  std::vector<std::uint32_t> implementation;  // operation -> index of its implementation; 0 on the host
  std::vector<std::uint32_t> region;          // operation -> region of its card; 0 on the host
  std::vector<Hop> hops;                      // all hops of tensors between cards, ascending
  double interval_seconds = 0;                // time between two frames, if the host does not limit the rate
  double latency_seconds =
      0;  // from the first word into the first card to the last word out of the last card
  // The objective is at most this fraction above the best possible: 0.02 is 2 %. Infinite if unknown.
  double gap = std::numeric_limits<double>::infinity();
  bool exact = false;  // proven: no contiguous cuts give a better solution, so the gap is 0

  // If the solution copies its pipeline: the cards of each further copy, by position. All fields above describe the
  // first copy.
  std::vector<std::vector<std::uint32_t>> copies = {};
  std::size_t replicas() const { return 1 + copies.size(); }
  bool operator==(const Solution&) const = default;
};

/// Chooses implementations, cuts, cards and regions together for the problem's targets. The problem must satisfy
/// is_predictable(). Each card gets one contiguous sequence of the layers, in order in the card's regions. A tensor
/// reaches its readers over cables, if necessary through cards between them.
///
/// If `explain` is set and nothing fits, also finds the reason and what would fit. This takes longer than the search.
///
/// Error kDoesNotFit: more partitions were asked for than there are layers or cards, cables are missing, or a target
/// cannot be met; the message says what limits the target and what could be met. kInvalidInput: no operation runs on a
/// card, or the targets make no sense.
Result<Solution> solve(const Problem& problem, bool explain = true);

/// Returns a few pipelines with short latencies at the target's rate; ignores the target for latency. The problem must
/// be one that solve() can solve. Latencies here are sums over blocks: if two sums are almost equal, the simulated
/// latencies may differ by a third. So the caller simulates all these pipelines and keeps the best.
std::vector<Solution> solve_short_latencies(const Problem& problem);

/// The card, region and implementation of each block, for example from a plan that a person wrote.
struct Choice {
  std::vector<std::uint32_t> card;            // position in the pipeline -> card; no card twice
  std::vector<std::uint32_t> place, region;   // operation -> position, region; ignored on the host
  std::vector<std::uint32_t> implementation;  // operation -> implementation; ignored on the host
};

/// Returns the solution that a choice describes. The problem must satisfy is_predictable(). kDoesNotFit names
/// the resource that a card lacks, the tensor that has no route, or the target that is missed. kInvalidInput:
/// a layer is split over cards or regions, or positions are out of order.
Result<Solution> solution_of(const Problem& problem, const Choice& choice);

/// Recomputes a solution without the search's code. Returns what is wrong with it, or an empty text. Compares the gap
/// (the distance to the best possible solution) only with bounds: see verify.cpp.
std::string verify(const Problem& problem, const Solution& solution);

/// Returns the longest time that one frame occupies a memory or a cable; the solution must pass verify().
double transfer_seconds(const Problem& problem, const Solution& solution);

/// Like solve(), but may also copy the pipeline onto further cards. Makes Problem::replicas copies if that is set,
/// otherwise one copy if Problem::partitions is set. If neither is set and the objective is throughput, makes the
/// number of copies with the highest rate. In all remaining cases, makes several copies only if one pipeline cannot
/// reach the target rate, or needs more cards for it. All copies have cards of the same kinds, and equal cables
/// wherever a tensor passes. No card is in two copies.
///
/// Errors are those of solve(); also kInvalidInput for 0 replicas or more than kMostReplicas, and kDoesNotFit if the
/// cluster has too few groups of equal cards.
Result<Solution> solve_replicated(const Problem& problem, bool explain = true);

/// Returns a sentence that names the cards on which the solution's copies of the pipeline are invalid; empty if all are
/// valid.
std::string check_copies(const Problem& problem, const Solution& solution);

}  // namespace millrace::compiler::explore
