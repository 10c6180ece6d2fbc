// The JSON documents about pipelines, cards and frames (/v2/millrace/…). README.md has the formats. Not for I/O
// threads: some read card registers, others are long.
#pragma once

#include <string>
#include <vector>

#include "server/http/routes/failure_log.hpp"
#include "server/models/registry.hpp"

namespace millrace::server::http {

/// Every model's pipeline, its cards and links, and the latest latencies.
std::string pipeline_status(const models::Snapshot& snapshot);

/// Each partition's nodes, its place, and what its card does.
std::string partition_status(const models::Snapshot& snapshot);

/// The plan of every model: endpoints, images, partitions, channels.
std::string deployments(const models::Snapshot& snapshot);

/// The timelines of the last frames in Trace Event Format, for chrome://tracing and Perfetto.
std::string trace(const models::Snapshot& snapshot);

/// `failures` and the log's last warnings and errors, newest first.
std::string recent_errors(const std::vector<Failure>& failures);

}  // namespace millrace::server::http
