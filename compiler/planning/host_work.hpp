// What a plan leaves to the host: which blocks, how long they take, and whether that will do.
#pragma once

#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Sets the plan's `host` and its problem's host_seconds: what the host does between cards is part of a
/// frame's way.
void time_host(const PlanOptions& options, const generators::Catalog& catalog, Plan& plan);

/// kInvalidInput where a block of --host does not exist; kDoesNotFit where what stands between cards takes
/// the host too long for the target, or --no-host forbids what it would have to do. After time_host().
Status check_host(const PlanOptions& options, const Plan& plan);

/// A frame's time of the one core that does what stands between cards.
double host_seconds_between(const Plan& plan);

/// Of a block between cards; 0 for any other.
double host_seconds_of(const Plan& plan, const std::string& block);

/// "a, b, c"
std::string joined(const std::vector<std::string>& names);

}  // namespace millrace::compiler
