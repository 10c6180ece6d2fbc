// Several copies of one pipeline, each on cards of its own: frames are dealt out among them. A layer above
// solve(), which knows one pipeline only.
#pragma once

#include <string>

#include "compiler/explore/partition.hpp"
#include "compiler/explore/problem.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::explore {

using runtime::plan::kMostReplicas;

/// solve(), and copies of what it finds: as many as Problem::replicas asks for; else, for throughput, as many
/// as make the rate highest; else as many as a target rate needs that one pipeline does not reach, or reaches
/// with more cards. With Problem::partitions (cards of each) and no replicas asked for, one. All copies stand
/// on cards of the same kinds, joined by the same cables where a tensor passes, and no card is in two.
///
/// Errors: those of solve(); kInvalidInput for 0 replicas or more than kMostReplicas; kDoesNotFit where the
/// cluster has not as many groups of cards alike.
Result<Solution> solve_replicated(const Problem& problem, bool explain = true);

/// Whether something may be better by the objective than a solution, which is one of the problem or of one
/// with fewer ways to build its operations: fewer cards in all, or a rate higher by more than a hundredth.
/// False is proven; true says nothing, and of latencies that is all that is said. The problem is predictable.
bool may_be_better(const Problem& problem, const Solution& solution);

/// What is wrong with the copies of a solution, as a sentence that names the cards; empty where nothing is.
std::string check_copies(const Problem& problem, const Solution& solution);

}  // namespace millrace::compiler::explore
