// Handles the route that impairs the cables of emulated cards. README.md has the format.
#pragma once

#include "server/http/routes/api.hpp"

namespace millrace::server::http {

Outcome impair_cable(const Call& call);

}  // namespace millrace::server::http
