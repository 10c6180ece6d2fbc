// `millrace plan`: predicts how many cards a model needs, how fast it runs and what limits it.

#include "compiler/planning/plan.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan_file.hpp"
#include "compiler/report/communication.hpp"
#include "compiler/report/load.hpp"
#include "compiler/report/report.hpp"
#include "runtime/base/file.hpp"
#include "tools/cli/calibrate.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/plan_options.hpp"

namespace millrace::cli {
namespace {

Status named(const char* option, const Status& status) {
  if (status.ok()) return status;
  const bool missing = status.error().code() == ErrorCode::kNotFound;
  return Error(status.error().code(), std::string(option) + " " + status.error().message() +
                                          (missing ? "; name a file in an existing directory" : ""));
}

/// Checks that the output file of `option` can be written and is no input file. Called before the search,
/// which can take long.
Status check_place(const char* option, const std::filesystem::path& path, const PlanWhat& what) {
  if (path.empty()) return {};
  std::error_code ignored;
  for (const auto& input : {std::filesystem::path(what.model), std::filesystem::path(what.cluster)})
    if (std::filesystem::equivalent(path, input, ignored))
      return Error(ErrorCode::kInvalidInput,
                   std::string(option) + " " + path.string() +
                       ": is an input file, which would be overwritten; name another file");
  return named(option, check_file_place(path));
}

/// Checks the files of --save-plan and --html, and refuses one name for both.
Status check_places(const PlanCommand& command) {
  MILLRACE_TRY(check_place("--save-plan", command.save, command.what));
  MILLRACE_TRY(check_place("--html", command.html, command.what));
  namespace fs = std::filesystem;
  if (!command.save.empty() && !command.html.empty() &&
      fs::absolute(command.save).lexically_normal() == fs::absolute(command.html).lexically_normal())
    return Error(ErrorCode::kInvalidInput,
                 "--save-plan and --html name the same file; name two different files");
  return {};
}

/// Parses the rates of --load: "20000" or "60%".
Result<std::vector<compiler::report::Rate>> read_rates(const std::vector<std::string>& texts) {
  constexpr double kMostFrames = 1e12, kMostShare = 10;
  std::vector<compiler::report::Rate> rates;
  for (const auto& text : texts) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const std::string unit = end;
    const compiler::report::Rate rate{unit == "%" ? value / 100 : value, unit == "%"};
    if (end == text.c_str() || (!unit.empty() && unit != "%") || !(rate.value > 0) ||
        rate.value > (rate.share ? kMostShare : kMostFrames))
      return Error(ErrorCode::kInvalidInput,
                   "--load " + text +
                       ": give a rate above 0, in frames a second or as a share of the sustained rate, "
                       "such as 20000 or 60%");
    rates.push_back(rate);
  }
  return rates;
}

/// Simulates the plan under the loads of the command. Returns nothing if the command asks for none.
Result<std::optional<compiler::report::LoadReport>> simulated_load(const PlanCommand& command,
                                                                   const compiler::Plan& plan) {
  if (command.load.empty()) return std::optional<compiler::report::LoadReport>();
  if (!plan.unpredicted().empty())
    return Error(ErrorCode::kUnsupported, "--load: nothing was predicted: " + plan.unpredicted());
  compiler::report::LoadOptions options;
  options.slots = command.slots;
  MILLRACE_ASSIGN(options.rates, read_rates(command.load));
  MILLRACE_ASSIGN(auto report, compiler::report::under_load(plan, options));
  return std::optional(std::move(report));
}

}  // namespace

Status run(const PlanCommand& command, std::ostream& out) {
  compiler::PlanOptions options;
  MILLRACE_TRY(fill(command.what, options));
  options.assume = command.assume;
  MILLRACE_TRY(check_places(command));
  MILLRACE_TRY(read_rates(command.load));  // before the search, which can take long
  MILLRACE_TRY(quantise_first(command.what, command.common.quiet || command.common.json, options, out));
  MILLRACE_ASSIGN(const auto plan, compiler::make_plan(options));
  const bool predicted = plan.unpredicted().empty();
  compiler::Alternatives alternatives;
  if ((command.alternatives || !command.html.empty()) && predicted)
    alternatives = compiler::find_alternatives(plan);
  if (!command.save.empty()) {
    if (!predicted)
      return Error(ErrorCode::kUnsupported, "--save-plan: nothing was predicted: " + plan.unpredicted());
    MILLRACE_TRY(named("--save-plan", write_file_atomically(command.save, compiler::plan_file(plan))));
  }
  if (!command.html.empty())
    MILLRACE_TRY(
        named("--html", write_file_atomically(command.html, compiler::report::html(plan, alternatives))));
  std::optional<compiler::report::Communication> communication;
  if (command.communication) {
    MILLRACE_ASSIGN(communication, compiler::report::communication(plan));
  }
  MILLRACE_ASSIGN(const auto load, simulated_load(command, plan));
  const bool colour = &out == &std::cout && ::isatty(STDOUT_FILENO) == 1;
  if (command.common.json) {
    out << compiler::report::json(plan, options, alternatives, communication ? &*communication : nullptr,
                                  load ? &*load : nullptr)
        << '\n';
  } else {
    out << compiler::report::terminal(plan, colour, alternatives);
    if (communication) out << compiler::report::terminal(*communication, colour);
    if (load) out << compiler::report::terminal(*load, colour);
  }
  return communication ? communication->check : Status();
}

}  // namespace millrace::cli
