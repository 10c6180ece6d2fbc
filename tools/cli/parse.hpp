// Turns the command line into one of the structs of commands.hpp. Only parse.cpp includes CLI11.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "tools/cli/commands.hpp"

namespace millrace::cli {

using Command = std::variant<CoverageCommand, PlanCommand, QuantizeCommand, CompileCommand, InspectCommand,
                             VerifyCommand, DevicesCommand, ServeCommand, InferCommand, ReloadCommand,
                             BenchCommand, SynthCommand, PackCommand, LaunchCommand>;

struct Parsed {
  std::string name;                // the sub-command's name
  std::optional<Command> command;  // empty: the user asked for help or the version, or the usage is wrong
  int exit_code = 0;               // if command is empty: 0 for help, 2 for wrong usage
  std::string message;             // if command is empty: the help, or the usage error
  bool json = false;               // --json was given; also set if the usage is wrong
};

/// Parses the arguments of main(). Never ends the process and prints nothing.
Parsed parse(int argc, const char* const* argv);

const Common& common_of(const Command& command);

}  // namespace millrace::cli
