// `millrace devices --check --deployment DIR`.
#pragma once

#include <iosfwd>

#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// Checks the cards and cables of a deployment before it serves. Prints a line for each card, for each cable and for the
/// probe frames. Returns kDoesNotFit if something is not as the deployment needs it.
Status preflight(const DevicesCommand& command, std::ostream& out);

}  // namespace millrace::cli
