// The JSON documents about the server and its models. README.md has the formats.
#pragma once

#include <string>

#include "server/models/model.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

/// `repository`: whether models can be loaded and unloaded.
std::string server_metadata(const std::string& server_version, bool repository);

/// `versions` are all served versions of the model's name.
std::string model_metadata(const models::Model& model, const models::Snapshot::Versions& versions);
std::string model_config(const models::Model& model);
std::string model_statistics(const std::vector<std::shared_ptr<models::Model>>& models);

/// What a client needs to make the input from a picture and to name the outputs.
std::string model_description(const models::Model& model);

}  // namespace millrace::server::http
