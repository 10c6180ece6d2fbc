// What the commands that talk to a server do alike to be let in.
#pragma once

#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"
#include "tools/clients/http_client.hpp"

namespace millrace::cli {

/// With the token out of its file, or of $MILLRACE_TOKEN. kInvalidInput where the file is empty or holds no
/// token, kNotFound where it is not there.
Result<clients::Access> access_of(const ServerAccess& given);

}  // namespace millrace::cli
