// The JSON documents about the server, its models, pipelines, cards and frames. README.md has the formats.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/http/routes/api.hpp"

namespace millrace::server::http {

/// `repository`: whether models can be loaded and unloaded.
std::string server_metadata(const std::string& server_version, bool repository);

std::string model_metadata(const models::Model& model);
std::string model_config(const models::Model& model);
std::string model_statistics(const std::vector<std::shared_ptr<models::Model>>& models);

/// What a client needs to make the input from a picture and to name the outputs.
std::string model_description(const models::Model& model);

// Not for I/O threads: some of these read card registers, others are long.

/// The pipelines of all models with their cards, their links and the latest latencies.
std::string pipeline_status(const models::Snapshot& snapshot);

/// The partitions of every model: their nodes, the card of each, and how busy that card is.
std::string partition_status(const models::Snapshot& snapshot);

/// The plan of every model: endpoints, images, partitions, channels.
std::string deployments(const models::Snapshot& snapshot);

/// The timelines of the last frames in Trace Event Format, for chrome://tracing and Perfetto.
std::string trace(const models::Snapshot& snapshot);

/// `failures` and the log's last warnings and errors, newest first.
std::string recent_errors(const std::vector<Failure>& failures);

}  // namespace millrace::server::http
