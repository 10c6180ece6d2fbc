// The coordinates of what report.html draws as SVG. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <functional>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

/// The pipeline: cards and host in the order in which a frame passes them. Drawn three times, for windows of
/// different widths.
boost::json::array pipeline_drawings(const Plan& plan);

struct ChartPoint {
  double cards = 0, value = 0;
};

/// A chart of values against numbers of cards: all points, a line through the best of each number of cards that
/// beats all smaller numbers, and the chosen point.
boost::json::object chart(const char* caption, const std::vector<ChartPoint>& points, ChartPoint chosen,
                          bool more_is_better, const std::function<std::string(double)>& label);

}  // namespace millrace::compiler::report
