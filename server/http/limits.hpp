// Computes how many connections and bytes a server may accept, from the limits of its process and from its models.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::server::http {

/// The server accepts this many connections beyond max_connections, to answer 503 on them.
constexpr std::size_t kRefusedAtOnce = 64;

/// Raises the soft limit of open descriptors to the hard limit, which is returned. Call before starting threads.
std::uint64_t raise_descriptor_limit();

/// Returns how many connections the server can accept: `wanted`, or fewer if descriptors are short. 64 descriptors are
/// reserved for the process, kRefusedAtOnce for refused connections and 16 for every card, so that a lost card can
/// always be opened again. Returns kEnvironment if no descriptor is left for connections.
Result<std::size_t> connections_within(std::size_t wanted, std::uint64_t descriptors, std::size_t cards);

/// Returns the size of a body that can hold any request for the model: 32 bytes for each input element (a
/// float32 in JSON has at most 16 characters, a comma and indentation) and 64 KiB more, at least 1 MiB.
std::uint64_t body_bytes_for(const runtime::plan::ModelInfo& model);

/// Returns the size of the shortest request for the deployment's model: all inputs as binary data, each in the
/// smaller of its own type and its quantised type.
std::uint64_t least_body_bytes_for(const runtime::plan::Deployment& deployment);

}  // namespace millrace::server::http
