// Writes the JSON documents about the server, its models, pipelines, cards and frames. README.md has the formats.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/http/routes/api.hpp"

namespace millrace::server::http {

/// Returns the document of GET /v2. `repository` says whether models can be loaded and unloaded.
std::string server_metadata(const std::string& server_version, bool repository);

std::string model_metadata(const models::Model& model);
std::string model_config(const models::Model& model);
std::string model_statistics(const std::vector<std::shared_ptr<models::Model>>& models);

/// Returns how a client must turn a picture into the model's input, and the labels of the outputs.
std::string model_description(const models::Model& model);

// The following functions must not run on I/O threads: some read card registers, and others return long documents.

/// Returns the pipelines of all models with their cards, their links and the latest latencies.
std::string pipeline_status(const models::Snapshot& snapshot);

/// Returns the partitions of every model, each with its nodes, its card and the utilisation of that card.
std::string partition_status(const models::Snapshot& snapshot);

/// Returns the plan of every model: endpoints, FPGA images, partitions and channels between cards.
std::string deployments(const models::Snapshot& snapshot);

/// Returns the timelines of the last frames in Trace Event Format, for chrome://tracing and Perfetto.
std::string trace(const models::Snapshot& snapshot);

/// Returns `failures` and the last warnings and errors of the log, newest first.
std::string recent_errors(const std::vector<Failure>& failures);

}  // namespace millrace::server::http
