// How a plan behaves under load, for people and programs: the rate that it sustains, and the latency with waiting.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"
#include "compiler/queueing/simulate.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::report {

/// A rate at which frames arrive: frames a second, or a share of the rate that the plan sustains.
struct Rate {
  double value = 0;
  bool share = false;  // value is a share, such as 0.6
};

struct LoadOptions {
  std::vector<Rate> rates;
  std::uint32_t slots = 8;        // the most frames in each pipeline; the default of `serve --slots`
  std::uint64_t frames = 20'000;  // simulated for each rate
};

struct LoadRun {
  double offered = 0;  // frames a second
  queueing::Observation seen;
};

struct LoadReport {
  LoadOptions options;
  double sustained = 0;  // frames a second if frames always wait
  std::string bottleneck;
  std::vector<queueing::Station> stations;
  queueing::Observation saturated;
  std::vector<LoadRun> runs;

  /// Whether the plan keeps up with the arrivals. If it does not, latencies grow as long as frames arrive.
  bool keeps_up(const LoadRun& run) const { return run.offered < sustained * 0.999; }
};

/// Simulates a predicted plan under each of the rates. Errors are those of queueing::network_of().
Result<LoadReport> under_load(const Plan& plan, const LoadOptions& options);

/// Returns the report as text in lines of at most 80 columns, with ANSI colours if `colour` is set.
std::string terminal(const LoadReport& report, bool colour);

/// Returns the report as the member "load" of `plan --json` (README.md).
boost::json::object facts(const LoadReport& report);

}  // namespace millrace::compiler::report
