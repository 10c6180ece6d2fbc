// Handles the routes that list, load and unload the models of the repository. README.md has the formats.
#pragma once

#include "server/http/routes/api.hpp"

namespace millrace::server::http {

Outcome index_of_repository(const Call& call);
Outcome load_model(const Call& call);
Outcome unload_model(const Call& call);

}  // namespace millrace::server::http
