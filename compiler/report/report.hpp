// Prints a plan as text for a terminal, as an HTML page, and as JSON (described in README.md).
#pragma once

#include <boost/json/fwd.hpp>

#include <string>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

struct Communication;  // communication.hpp
struct LoadReport;     // load.hpp

/// Returns the plan as text in lines of at most 80 columns, with ANSI colours if `colour` is set.
std::string terminal(const Plan& plan, bool colour, const Alternatives& alternatives = {});

struct HtmlOptions {
  bool times = true;  // show how long exploring took; if false, equal plans give equal bytes
};

/// Returns the plan as an HTML page with drawings, bars and tables. The page fetches nothing and has no script.
std::string html(const Plan& plan, const Alternatives& alternatives = {}, const HtmlOptions& options = {});

/// Returns a sentence that names the unmeasured terms of the cost model that this plan's resources use, or an empty
/// text if all terms are measured.
std::string extrapolated(const Plan& plan);

/// Returns the unmeasured terms of the cost model that this plan uses, as json() prints them under "extrapolated".
boost::json::array extrapolated_json(const Plan& plan);

/// Returns the plan as one JSON object, without a line end. The object has the members "communication" and "load" if
/// these are given.
std::string json(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives = {},
                 const Communication* communication = nullptr, const LoadReport* load = nullptr);

}  // namespace millrace::compiler::report
