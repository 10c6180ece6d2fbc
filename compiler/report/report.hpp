// A plan for people (terminal) and programs (JSON; documented in README.md).
#pragma once

#include <string>

#include "compiler/plan.hpp"

namespace millrace::compiler::report {

/// Lines of at most 80 columns; `colour`: with ANSI colours.
std::string terminal(const Plan& plan, bool colour);

/// One object, without a line end.
std::string json(const Plan& plan, const PlanOptions& options);

}  // namespace millrace::compiler::report
