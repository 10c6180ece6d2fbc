// Where each operation runs and how it is built. The layers are cut into contiguous pieces, each piece gets a card, and
// each operation gets an implementation. Pure functions: a problem in, a solution out.
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

/// Operations that run together: those of one stage at one place of the pipeline.
struct Part {
  bool host = false;
  std::uint32_t place = 0;  // position of its card in the pipeline, from 0; 0 on the host
  std::uint32_t stage = 0;
  std::vector<std::uint32_t> operations;  // ascending
  bool operator==(const Part&) const = default;
};

/// A tensor goes from one place to another, over the cables between their cards.
struct Hop {
  std::uint32_t tensor = 0, from = 0, to = 0;
  bool operator==(const Hop&) const = default;
};

struct Solution {
  std::vector<Part> parts;           // topological order
  std::vector<std::uint32_t> card;   // place -> the card of the problem that is there
  std::uint64_t crossing_bytes = 0;  // a frame, summed over the cuts each tensor crosses

  // Empty and 0 if the cuts were made without implementations.
  std::vector<std::uint32_t> implementation;  // operation -> its implementation; 0 on the host
  std::vector<std::uint32_t> region;          // operation -> region of its card; 0 on the host
  std::vector<Hop> hops;                      // of all tensors that go between cards, ascending
  double interval_seconds = 0;  // from one frame to the next, if the host does not limit the rate
  double latency_seconds = 0;   // first beat into the first card to last beat out of the last
  // The objective is at most this fraction above the best possible: 0.02 is 2 %. Infinite: not known.
  double gap = std::numeric_limits<double>::infinity();
  bool exact = false;  // nothing better exists among contiguous cuts: the gap is 0 and proven

  // The cards of each further copy, by place. All of the above is of one copy.
  std::vector<std::vector<std::uint32_t>> copies = {};
  std::size_t replicas() const { return 1 + copies.size(); }
  bool operator==(const Solution&) const = default;
};

/// Chooses implementations, cuts, cards and regions together for the problem's targets; the problem is
/// predictable. A card holds one piece of layers, its layers in their order in the card's regions. A
/// tensor reaches its readers by cables, on its way through cards that hold a piece in between.
///
/// `explain`: if nothing fits, looks for the reason and for what would fit, which takes longer than the search.
///
/// kDoesNotFit: more pieces than layers or cards, cables missing, or a target that cannot be met; the message says
/// what limits it and what could be met. kInvalidInput: nothing for a card to do, or targets that make no sense.
Result<Solution> solve(const Problem& problem, bool explain = true);

/// A few pipelines with short latencies at the target's rate, without the target for latency. solve() must have
/// an answer to the problem. Latencies here are sums over blocks; two that are almost equal may differ by a third
/// when they are played. So the caller plays all of these and takes the best.
std::vector<Solution> solve_short_latencies(const Problem& problem);

/// The card, region and implementation of each block: a plan as a person may have written it.
struct Choice {
  std::vector<std::uint32_t> card;            // place -> card, each once
  std::vector<std::uint32_t> place, region;   // of an operation; unread on the host
  std::vector<std::uint32_t> implementation;  // of an operation; unread on the host
};

/// The solution that a choice gives. The problem is predictable. kDoesNotFit names the resource that a card has too
/// little of, the tensor that has no route, or the target that is missed. kInvalidInput: a layer is torn apart or
/// places are out of order.
Result<Solution> solution_of(const Problem& problem, const Choice& choice);

/// What does not hold of a solution, recomputed without the search's code. Empty: all holds. A gap is held to
/// bounds only: see verify.cpp.
std::string verify(const Problem& problem, const Solution& solution);

/// The longest time that a frame of a verified solution takes of a memory or of a cable, recomputed likewise.
double transfer_seconds(const Problem& problem, const Solution& solution);

/// solve(), and copies of the pipeline that it finds. There are as many as Problem::replicas asks for. If it asks
/// for none: one if Problem::partitions is set; for throughput, as many as make the rate highest; else as many as
/// a target rate needs that one pipeline does not reach, or reaches only with more cards. All copies are on cards
/// of the same kinds, with the same cables wherever a tensor passes. No card is in two copies.
///
/// Errors are those of solve(); kInvalidInput for 0 replicas or more than kMostReplicas; kDoesNotFit if the cluster
/// has too few groups of equal cards.
Result<Solution> solve_replicated(const Problem& problem, bool explain = true);

/// What is wrong with the copies of a solution, as a sentence that names the cards. Empty: nothing.
std::string check_copies(const Problem& problem, const Solution& solution);

}  // namespace millrace::compiler::explore
