// `millrace coverage`: says for each node of a model who can compute it, and what is missing.

#include "compiler/coverage/coverage.hpp"

#include <ostream>

#include "tools/cli/commands.hpp"
#include "tools/cli/plan_options.hpp"

namespace millrace::cli {

Status run(const CoverageCommand& command, std::ostream& out) {
  compiler::coverage::Options options;
  options.model = command.model;
  options.cluster = command.cluster;
  MILLRACE_ASSIGN(options.plugins, plugin_files(command.plugins));
  MILLRACE_ASSIGN(const auto coverage, compiler::coverage::cover(options));
  if (command.common.json)
    out << compiler::coverage::json(coverage) << '\n';
  else
    out << compiler::coverage::terminal(coverage, command.all);
  const std::size_t missing = coverage.missing();
  if (missing > 0)
    return Error(ErrorCode::kDoesNotFit, std::to_string(missing) + " of " +
                                             std::to_string(coverage.nodes.size()) +
                                             (missing == 1 ? " nodes runs" : " nodes run") +
                                             " nowhere; the table says what to change");
  if (!coverage.problems.empty()) return Error(ErrorCode::kDoesNotFit, coverage.problems.front());
  return {};
}

}  // namespace millrace::cli
