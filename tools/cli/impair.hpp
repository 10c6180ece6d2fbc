// `millrace devices --impair`.
#pragma once

#include <iosfwd>

#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// Sends the faults of `command.impair` to the server. Returns kUnsupported if the server's cards are real or the cable
/// does not use UDP, and kInvalidInput if the server refuses the cable, a key or a value.
Status impair(const DevicesCommand& command, std::ostream& out);

}  // namespace millrace::cli
