// The blocks that a plan leaves to the host: which they are, how long they take, and whether that is allowed.
#pragma once

#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "compiler/planning/lower.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The host's blocks and their times. Sets host_seconds of the problem's operations: between cards, the
/// host's time is part of a frame's latency.
std::vector<HostBlock> time_host(const PlanOptions& options, const generators::Catalog& catalog,
                                 const kernels::Program& program, explore::Problem& problem);

/// kInvalidInput: --host names a block that does not exist. kDoesNotFit: the host is too slow for the target
/// rate, or would have to do what --no-host forbids.
Status check_host(const PlanOptions& options, const Lowered& lowered);

/// The time that one core needs for a frame's blocks between cards.
double host_seconds_between(const std::vector<HostBlock>& host);

/// The same of one block; 0 if the host does not run it between cards.
double host_seconds_of(const std::vector<HostBlock>& host, const std::string& block);

/// "a, b, c"
std::string joined(const std::vector<std::string>& names);

}  // namespace millrace::compiler
