// A cluster with more cables, to find out whether missing cables are what keeps a model from fitting.
#pragma once

#include <cstddef>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler {

/// The size of the largest group of cards that cables join, directly or through other cards.
std::size_t most_joined(const runtime::plan::Cluster& cluster);

/// The cluster with more cables, of unlimited bandwidth: between all cards that have none if the cards are
/// few, otherwise from each group of joined cards to the next.
runtime::plan::Cluster cabled(runtime::plan::Cluster cluster);

/// The error of a plan, with the remark that `cards` joined cards would do. A plan was found for cabled().
Error for_want_of_cables(const runtime::plan::Cluster& cluster, std::size_t cards, const Error& error);

}  // namespace millrace::compiler
