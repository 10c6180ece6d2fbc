// Reads the credentials of the commands that send requests to a server: bench, infer and reload.
#pragma once

#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"
#include "tools/clients/http_client.hpp"

namespace millrace::cli {

/// Reads the access token from the file that `given` names or, if it names none, from $MILLRACE_TOKEN.
/// Returns kInvalidInput if the file contains no token and kNotFound if the file does not exist.
Result<clients::Access> access_of(const ServerAccess& given);

}  // namespace millrace::cli
