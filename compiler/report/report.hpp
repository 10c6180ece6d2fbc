// Prints a plan: as text for a terminal, as a page, and as JSON (described in README.md).
#pragma once

#include <boost/json/fwd.hpp>

#include <string>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

/// The plan as text in lines of at most 80 columns, with ANSI colours if `colour` is set.
std::string terminal(const Plan& plan, bool colour, const Alternatives& alternatives = {});

struct HtmlOptions {
  bool times = true;  // show how long exploring took; if false, the same plan gives the same bytes
};

/// The plan as a page with drawings, bars and tables. The page fetches nothing and has no script.
std::string html(const Plan& plan, const Alternatives& alternatives = {}, const HtmlOptions& options = {});

/// A sentence that names the terms of the cost model that this plan's resources use without a measurement; empty if
/// all terms are measured.
std::string extrapolated(const Plan& plan);

/// The same terms, as json() prints them under "extrapolated".
boost::json::array extrapolated_json(const Plan& plan);

/// The plan as one JSON object, without a line end.
std::string json(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives = {});

}  // namespace millrace::compiler::report
