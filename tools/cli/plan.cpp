// `millrace plan`: how many cards, how fast, and why, before anything is built.

#include "compiler/plan.hpp"

#include <unistd.h>

#include <iostream>

#include "compiler/alternatives.hpp"
#include "compiler/plan_file.hpp"
#include "compiler/report/report.hpp"
#include "runtime/base/file.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/plan_options.hpp"

namespace millrace::cli {

Status run(const PlanCommand& command, std::ostream& out) {
  compiler::PlanOptions options;
  MILLRACE_TRY(fill(command.what, options));
  options.assume = command.assume;
  MILLRACE_ASSIGN(auto plan, compiler::make_plan(options));
  if ((command.alternatives || !command.html.empty()) && plan.unpredicted.empty())
    compiler::add_alternatives(plan);
  if (!command.save.empty()) {
    if (!plan.unpredicted.empty())
      return Error(ErrorCode::kUnsupported, "--save-plan: nothing was predicted: " + plan.unpredicted);
    MILLRACE_TRY(write_file_atomically(command.save, compiler::plan_file(plan)));
  }
  if (!command.html.empty()) MILLRACE_TRY(write_file_atomically(command.html, compiler::report::html(plan)));
  if (command.common.json)
    out << compiler::report::json(plan, options) << '\n';
  else if (!command.common.quiet)
    out << compiler::report::terminal(plan, &out == &std::cout && ::isatty(STDOUT_FILENO) == 1);
  return {};
}

}  // namespace millrace::cli
