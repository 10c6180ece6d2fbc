// What a cluster would be with more cables, to tell whether it is cables that a plan lacks.
#pragma once

#include <cstddef>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler {

/// The most cards between which there is a way along cables.
std::size_t most_joined(const runtime::plan::Cluster& cluster);

/// With cables without a limit of their own between cards that have none: between all of them where they are
/// few, else from one group of joined cards to the next.
runtime::plan::Cluster cabled(runtime::plan::Cluster cluster);

/// What a plan failed with, where one with so many cards a pipeline was found for the cluster cabled().
Error for_want_of_cables(const runtime::plan::Cluster& cluster, std::size_t cards, const Error& error);

}  // namespace millrace::compiler
