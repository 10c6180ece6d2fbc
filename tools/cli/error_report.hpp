// How a command says on standard error that it failed, for people and, with --json, for programs.
#pragma once

#include <string>

namespace millrace::cli {

struct Failure {
  std::string command;  // the sub-command; empty: none was recognised
  std::string message;  // what happened, and the remedy; control characters are taken out
  int exit_code = 0;
};

/// "millrace <command>: error: <message>", or one line {"schema":1,"command":…,"error":…,"exit_code":…}.
std::string failure_line(const Failure& failure, bool json);

/// Writes the line to standard error in one piece, so that other threads' lines do not mix with it.
void report_failure(const Failure& failure, bool json);

}  // namespace millrace::cli
