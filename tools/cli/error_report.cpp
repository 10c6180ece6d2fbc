#include "tools/cli/error_report.hpp"

#include <boost/json.hpp>
#include <iostream>

#include "runtime/base/text.hpp"

namespace millrace::cli {

std::string failure_line(const Failure& failure, bool json) {
  const std::string message = printable(failure.message, true);
  if (json)
    return boost::json::serialize(boost::json::object{{"schema", 1},
                                                      {"command", failure.command},
                                                      {"error", message},
                                                      {"exit_code", failure.exit_code}}) +
           '\n';
  return "millrace" + (failure.command.empty() ? "" : " " + failure.command) + ": error: " + message + '\n';
}

void report_failure(const Failure& failure, bool json) {
  std::cerr << failure_line(failure, json) << std::flush;
}

}  // namespace millrace::cli
