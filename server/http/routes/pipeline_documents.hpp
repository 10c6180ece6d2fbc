// The JSON documents about pipelines, cards and frames (/v2/millrace/…). Formats: README.md. Not for I/O
// threads: they read card registers, or say much.
#pragma once

#include <string>
#include <vector>

#include "server/http/routes/failure_log.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

/// Every model's pipeline, its cards and links, and how long frames took of late.
std::string pipeline_status(const models::Snapshot& snapshot);

/// What each partition holds, where it is, and what its card does.
std::string partition_status(const models::Snapshot& snapshot);

/// The plan of every model: endpoints, images, partitions, channels.
std::string deployments(const models::Snapshot& snapshot);

/// The last frames' timelines in Trace Event Format, for chrome://tracing and Perfetto.
std::string trace(const models::Snapshot& snapshot);

/// `failures` and the log's warnings and errors, newest first.
std::string recent_errors(const std::vector<Failure>& failures);

}  // namespace millrace::server::http
