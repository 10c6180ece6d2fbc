// Reports a failed command on standard error, as text or, with --json, as JSON.
#pragma once

#include <string>

namespace millrace::cli {

struct Failure {
  std::string command;  // the sub-command; empty: none was recognised
  std::string message;  // what happened, and the remedy; control characters are removed
  int exit_code = 0;
};

/// "millrace <command>: error: <message>", or one line {"schema":1,"command":…,"error":…,"exit_code":…}.
std::string failure_line(const Failure& failure, bool json);

/// Writes the line to standard error in one piece, so that other threads' lines do not mix with it.
void report_failure(const Failure& failure, bool json);

}  // namespace millrace::cli
