// `millrace compile`: a model and a cluster to a deployment, and what came of it.

#include <boost/json.hpp>
#include <cstdio>
#include <numeric>
#include <ostream>

#include "compiler/compile.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/describe.hpp"

namespace millrace::cli {
namespace {

constexpr char kExploration[] = "partition";

double milliseconds_of(const compiler::CompileReport& report, const std::string& step) {
  double sum = 0;
  for (const auto& time : report.steps)
    if (step.empty() || time.name == step) sum += time.milliseconds;
  return sum;
}

std::string one_decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// Members for print_json().
std::string extra_json(const compiler::CompileReport& report, const std::filesystem::path& output) {
  boost::json::array steps;
  for (const auto& step : report.steps)
    steps.push_back({{"name", step.name}, {"milliseconds", step.milliseconds}});
  const boost::json::object extra{{"output", output.string()},
                                  {"exploration_ms", milliseconds_of(report, kExploration)},
                                  {"total_ms", milliseconds_of(report, "")},
                                  {"steps", std::move(steps)}};
  const std::string text = boost::json::serialize(extra);
  return "," + text.substr(1, text.size() - 2);
}

}  // namespace

Status run(const CompileCommand& command, std::ostream& out) {
  compiler::CompileOptions options;
  options.model = command.model;
  options.cluster = command.cluster;
  options.output = command.output;
  options.name = command.name;
  options.partitions = command.partitions;
  options.dump_after = command.dump_after;
  MILLRACE_ASSIGN(const auto report, compiler::compile(options));

  // Read back rather than reported from memory: what is printed is what is on disk.
  MILLRACE_ASSIGN(const auto deployment, runtime::plan::load_deployment(command.output));
  MILLRACE_ASSIGN(const auto description, describe(deployment));
  if (command.common.json) {
    print_json(description, extra_json(report, command.output), out);
    return {};
  }
  if (command.common.quiet) return {};
  print_table(description, out);
  out << "\nwrote " << command.output.string() << " in " << one_decimal(milliseconds_of(report, ""))
      << " ms (partitioning " << one_decimal(milliseconds_of(report, kExploration)) << " ms)\n";
  return {};
}

}  // namespace millrace::cli
