#include "compiler/report/load.hpp"

#include <boost/json.hpp>

#include "compiler/queueing/network.hpp"
#include "compiler/report/columns.hpp"
#include "compiler/report/figures.hpp"

namespace millrace::compiler::report {
namespace {

namespace json = boost::json;

/// Says in one sentence what was simulated.
std::string simulated_what(const LoadReport& report) {
  return "simulated: " + with_commas(static_cast<double>(report.options.frames)) +
         " frames that arrive at random times; "
         "at most " +
         std::to_string(report.options.slots) +
         " frames in each pipeline; "
         "latencies include the time that frames wait; "
         "latencies exclude the transfers between host and cards; "
         "latencies exclude the host's work before the first card and after the last card";
}

}  // namespace

Result<LoadReport> under_load(const Plan& plan, const LoadOptions& options) {
  MILLRACE_ASSIGN(const auto network, queueing::network_of(plan, options.slots));
  LoadReport out;
  out.options = options;
  out.stations = network.stations;
  out.saturated = queueing::simulate(network, {0, options.frames});
  out.sustained = out.saturated.frames_per_second;
  out.bottleneck = queueing::bottleneck(network, out.saturated);
  for (const Rate& rate : options.rates) {
    const double offered = rate.share ? rate.value * out.sustained : rate.value;
    out.runs.push_back({offered, queueing::simulate(network, {offered, options.frames})});
  }
  return out;
}

std::string terminal(const LoadReport& report, bool colour) {
  const auto bold = [colour](const std::string& text) {
    return colour ? "\x1b[1m" + text + "\x1b[0m" : text;
  };
  std::string out = "\n" + wrapped("sustains " + with_commas(report.sustained) +
                                       " frames/s under load, limited by " + report.bottleneck,
                                   "  ", "  ");
  out += bold("   load    frames/s        mean         p50         p90         p99       p99.9") + "\n";
  for (const auto& run : report.runs) {
    out += right(percent(report.sustained > 0 ? run.offered / report.sustained : 0), 7) +
           right(with_commas(run.offered), 12);
    if (report.keeps_up(run))
      for (const double seconds : {run.seen.mean, run.seen.p50, run.seen.p90, run.seen.p99, run.seen.p999})
        out += right(duration(seconds), 12);
    else
      out += "  more than the plan sustains: the queue grows without limit";
    out += "\n";
  }
  return out + wrapped(simulated_what(report), "  ", "  ");
}

json::object facts(const LoadReport& report) {
  json::array runs, stations;
  for (const auto& run : report.runs) {
    const bool keeps_up = report.keeps_up(run);
    const auto time = [&](double seconds) {
      return keeps_up ? json::value(seconds * 1e6) : json::value(nullptr);
    };
    runs.push_back(json::object{{"offered_frames_per_second", run.offered},
                                {"frames_per_second", run.seen.frames_per_second},
                                {"keeps_up", keeps_up},
                                {"latency_us", json::object{{"mean", time(run.seen.mean)},
                                                            {"p50", time(run.seen.p50)},
                                                            {"p90", time(run.seen.p90)},
                                                            {"p99", time(run.seen.p99)},
                                                            {"p999", time(run.seen.p999)}}}});
  }
  for (std::size_t s = 0; s < report.stations.size(); ++s)
    stations.push_back(
        json::object{{"name", report.stations[s].name}, {"busy", report.saturated.stations[s].busy}});
  return {{"sustained_frames_per_second", report.sustained},
          {"bottleneck", report.bottleneck},
          {"slots", report.options.slots},
          {"frames", report.options.frames},
          {"runs", std::move(runs)},
          {"stations", std::move(stations)}};
}

}  // namespace millrace::compiler::report
