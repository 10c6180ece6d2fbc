// The model repository over HTTP: requests to load, unload and list models. README.md has the formats.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/http/message.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::http {

/// The route of the request.
enum class RepositoryChange : std::uint8_t { kLoad, kUnload };

/// The checked body of a load or unload request, which may be empty. kInvalidInput names the field; kUnsupported for
/// what Triton takes and we do not (config, files).
struct RepositoryRequest {
  std::string version;  // empty: of a load the pinned one or the newest; of an unload the one that serves
  std::optional<models::SwapPolicy> policy;
  bool wait = true;
  bool force = false;  // of a load
  bool pin = false;    // of a load that names a version
  bool unpin = false;  // of a load that names nothing else; nothing is loaded
};
Result<RepositoryRequest> parse_repository_request(RepositoryChange change, std::span<const std::byte> body);

/// Whether the body of an index request, which may be empty, asks for ready versions only: {"ready":true}.
/// kInvalidInput if it is malformed.
Result<bool> parse_index_request(std::span<const std::byte> body);

/// The answer to a load or unload that ended with `status`.
Response repository_response(const Status& status);

/// Starts to load the model, to unload it, or to remove its pin. Calls `answer` once, perhaps before this returns,
/// perhaps on another thread.
void handle_repository(models::Repository& repository, RepositoryChange change, const std::string& model,
                       const RepositoryRequest& request, const std::function<void(Response)>& answer);

/// All versions of the repository, or those of `snapshot` if `repository` is null.
std::string repository_index(const models::Repository* repository, const models::Snapshot& snapshot,
                             bool ready_only);

}  // namespace millrace::server::http
