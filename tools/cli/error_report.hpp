// Reports a failed command on standard error, as text or, with --json, as JSON.
#pragma once

#include <string>

namespace millrace::cli {

struct Failure {
  std::string command;  // the sub-command; empty if the command line names none
  std::string message;  // what happened, and the remedy; control characters are removed
  int exit_code = 0;
};

/// Returns "millrace <command>: error: <message>" or, if `json`, {"schema":1,"command":…,"error":…,"exit_code":…}.
std::string failure_line(const Failure& failure, bool json);

/// Writes failure_line() to standard error in one piece, so that lines of other threads do not mix with it.
void report_failure(const Failure& failure, bool json);

}  // namespace millrace::cli
