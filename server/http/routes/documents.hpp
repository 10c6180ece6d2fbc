// The JSON documents about the server and its models. Formats: README.md. Not for the hot path.
#pragma once

#include <string>

#include "server/models/model.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

/// `repository`: models can be loaded and unloaded.
std::string server_metadata(const std::string& server_version, bool repository);

/// `versions` are all served versions of the model's name.
std::string model_metadata(const models::Model& model, const models::Snapshot::Versions& versions);
std::string model_config(const models::Model& model);
std::string model_statistics(const std::vector<std::shared_ptr<models::Model>>& models);

/// What a client needs to turn a picture into the input and the output into words.
std::string model_description(const models::Model& model);

}  // namespace millrace::server::http
