// `millrace compile`: compiles a model for a cluster into a deployment, and reports the result.

#include <boost/json.hpp>
#include <cstdio>
#include <ostream>

#include "compiler/compile.hpp"
#include "compiler/report/report.hpp"
#include "compiler/variants/variants.hpp"
#include "tools/cli/calibrate.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/describe.hpp"
#include "tools/cli/plan_options.hpp"

namespace millrace::cli {
namespace {

double milliseconds_of(const std::vector<compiler::StepTime>& steps) {
  double sum = 0;
  for (const auto& time : steps) sum += time.milliseconds;
  return sum;
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// Returns the report's members that print_json() appends to the deployment's JSON object.
std::string extra_json(const compiler::CompileReport& report, const std::filesystem::path& output) {
  boost::json::array steps;
  for (const auto& step : report.steps)
    steps.push_back({{"name", step.name}, {"milliseconds", step.milliseconds}});
  boost::json::object extra{{"output", output.string()},
                            {"exploration_ms", report.design.times.exploration_ms},
                            {"total_ms", milliseconds_of(report.steps)},
                            {"steps", std::move(steps)},
                            {"notes", boost::json::value_from(report.design.model.notes)},
                            {"extrapolated", compiler::report::extrapolated_json(report.design)}};
  extra["predicted"] = nullptr;
  if (report.design.unpredicted().empty())
    extra["predicted"] = {{"frames_per_second", report.design.frames_per_second()},
                          {"latency_us", report.design.latency_seconds * 1e6}};
  const std::string text = boost::json::serialize(extra);
  return "," + text.substr(1, text.size() - 2);
}

/// Compiles several variants and prints them as a table, or their index as JSON.
Status run_variants(const CompileCommand& command, const compiler::CompileOptions& options,
                    std::ostream& out) {
  namespace variants = compiler::variants;
  MILLRACE_ASSIGN(const auto report, variants::compile_variants(options, command.variants));
  const double total = milliseconds_of(report.steps);
  if (command.common.json) {
    boost::json::object root = boost::json::parse(variants::index(report)).as_object();
    root["output"] = options.output.string();
    root["total_ms"] = total;
    out << boost::json::serialize(root) << '\n';
    return {};
  }
  const auto wrote = [&] {
    out << "wrote " << options.output.string() << " and its variants.json in " << one_decimal(total)
        << " ms\n";
  };
  if (command.common.quiet) {
    wrote();
    return {};
  }
  out << "variant     cards        frames/s   latency us  fullest  built for\n";
  for (const auto& v : report.variants) {
    char line[160];
    std::snprintf(line, sizeof line,
                  "%-10s %6.0f %15.0f "
                  "%12.1f %6.0f %%  %s%s\n",
                  v.directory.c_str(), v.figures.cards, 1 / v.figures.interval_seconds,
                  v.figures.latency_seconds * 1e6, v.figures.fullest * 100,
                  compiler::explore::objective_name(v.options.targets.objective),
                  v.own ? " (as without --variants)" : "");
    out << line;
  }
  if (report.variants.size() < command.variants)
    out << "no other variant is worth building: each would be worse than one of these in every respect\n";
  out << '\n';
  wrote();
  return {};
}

}  // namespace

Status run(const CompileCommand& command, std::ostream& out) {
  compiler::CompileOptions options;
  MILLRACE_TRY(fill(command.what, options));
  options.output = command.output;
  MILLRACE_TRY(quantise_first(command.what, command.common.quiet || command.common.json, options, out));
  options.report = [](const compiler::Plan& plan) {
    const bool predicted = plan.unpredicted().empty();
    return compiler::report::html(
        plan, predicted ? compiler::find_alternatives(plan) : compiler::Alternatives(), {.times = false});
  };
  if (command.variants > 0) return run_variants(command, options, out);
  MILLRACE_ASSIGN(const auto report, compiler::compile(options));

  // Read the deployment back, so that the report describes the files on disk.
  MILLRACE_ASSIGN(const auto deployment, runtime::plan::load_deployment(command.output));
  MILLRACE_ASSIGN(const auto description, describe(deployment));
  if (command.common.json) {
    print_json(description, extra_json(report, command.output), out);
    return {};
  }
  if (!command.common.quiet) {
    print_table(description, out);
    if (report.design.unpredicted().empty())
      out << "\npredicted " << one_decimal(report.design.frames_per_second()) << " frames/s, "
          << one_decimal(report.design.latency_seconds * 1e6) << " us a frame; "
          << report.design.analysis.bottleneck << '\n';
    else
      out << "\nruns on emulated cards only: " << report.design.unpredicted() << '\n';
    if (const auto terms = compiler::report::extrapolated(report.design); !terms.empty())
      out << terms << '\n';
    out << '\n';
  }
  out << "wrote " << command.output.string() << " in " << one_decimal(milliseconds_of(report.steps))
      << " ms (explored in " << one_decimal(report.design.times.exploration_ms) << " ms)\n";
  return {};
}

}  // namespace millrace::cli
