// The model repository over HTTP: what a load, unload or index request asks for. Formats: README.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/http/message.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::http {

/// Which route a change came through.
enum class RepositoryChange : std::uint8_t { kLoad, kUnload };

/// The body of a load or unload request, checked; empty is fine. kInvalidInput names the field, kUnsupported
/// what Triton takes and we do not (config, files).
struct RepositoryRequest {
  std::string version;  // empty: the pinned one or the newest, or what is served
  std::optional<models::SwapPolicy> policy;
  bool wait = true;
  bool force = false;  // of a load
  bool pin = false;    // of a load that names a version
  bool unpin = false;  // of a load, alone: nothing is loaded
};
Result<RepositoryRequest> parse_repository_request(RepositoryChange change, std::span<const std::byte> body);

/// {"ready":true} in the body of an index request: only what is ready. kInvalidInput.
Result<bool> parse_index_request(std::span<const std::byte> body);

/// Of what a load or unload came to.
Response repository_response(const Status& status);

/// Starts to load the model, to unload it, or to remove its pin. `answer` is called once, perhaps before this
/// returns, perhaps on another thread.
void handle_repository(models::Repository& repository, RepositoryChange change, const std::string& model,
                       const RepositoryRequest& request, const std::function<void(Response)>& answer);

/// `repository` null: what `snapshot` holds.
std::string repository_index(const models::Repository* repository, const models::Snapshot& snapshot,
                             bool ready_only);

}  // namespace millrace::server::http
