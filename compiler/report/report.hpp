// A plan for people (terminal, a page) and programs (JSON; documented in README.md).
#pragma once

#include <boost/json/fwd.hpp>

#include <string>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

/// Lines of at most 80 columns; `colour`: with ANSI colours.
std::string terminal(const Plan& plan, bool colour, const Alternatives& alternatives = {});

struct HtmlOptions {
  bool times = true;  // how long exploring took; without, the same plan gives the same bytes
};

/// A page that fetches nothing and runs nothing: drawings, bars and tables of the same plan.
std::string html(const Plan& plan, const Alternatives& alternatives = {}, const HtmlOptions& options = {});

/// Which terms of the cost model had no measurement behind them in this plan's resources; empty where all
/// had.
std::string extrapolated(const Plan& plan);

/// The same as json() has them under "extrapolated".
boost::json::array extrapolated_json(const Plan& plan);

/// One object, without a line end.
std::string json(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives = {});

}  // namespace millrace::compiler::report
