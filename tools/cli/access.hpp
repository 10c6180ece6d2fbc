// Credentials of the commands that talk to a server.
#pragma once

#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"
#include "tools/clients/http_client.hpp"

namespace millrace::cli {

/// Reads the token from the file that `given` names or, without a file, from $MILLRACE_TOKEN. kInvalidInput
/// if the file holds no token, kNotFound if the file does not exist.
Result<clients::Access> access_of(const ServerAccess& given);

}  // namespace millrace::cli
