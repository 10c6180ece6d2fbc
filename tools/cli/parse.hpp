// The command line as data. The only implementation file behind it is also the only one that sees CLI11.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "tools/cli/commands.hpp"

namespace millrace::cli {

using Command =
    std::variant<PlanCommand, CompileCommand, InspectCommand, VerifyCommand, DevicesCommand, ServeCommand,
                 InferCommand, ReloadCommand, BenchCommand, SynthCommand, PackCommand>;

struct Parsed {
  std::string name;                // of the sub-command
  std::optional<Command> command;  // empty: help or version was asked for, or the usage was wrong
  int exit_code = 0;               // where command is empty: 0 for help, 2 for wrong usage
  std::string message;             // where command is empty: the help, or what is wrong with the usage
  bool json = false;               // --json was given, whatever else is wrong
};

/// argv as main() has it. Never exits, never prints.
Parsed parse(int argc, const char* const* argv);

const Common& common_of(const Command& command);

}  // namespace millrace::cli
