// How much a server may take at once: what the process and its models allow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::server::http {

/// This many connections beyond the limit are accepted, only to be told that the limit is reached.
constexpr std::size_t kRefusedAtOnce = 64;

/// Raises the process's soft limit of open descriptors to the hard one and returns it. Before other threads
/// exist.
std::uint64_t raise_descriptor_limit();

/// `wanted` connections, or fewer if descriptors are short: 64 are kept for the process, kRefusedAtOnce for
/// refused connections and 16 for every card, so that a lost card can be opened again whatever clients do.
/// kEnvironment if none is left.
Result<std::size_t> connections_within(std::size_t wanted, std::uint64_t descriptors, std::size_t cards);

/// The size of a body that holds any request for the model: 32 bytes an input element (a float32 in JSON has at
/// most 16 characters, a comma and indentation) and 64 KiB around them, at least 1 MiB.
std::uint64_t body_bytes_for(const runtime::plan::ModelInfo& model);

/// The size of the shortest request for the deployment's model: its inputs in binary, as reals or quantised.
std::uint64_t least_body_bytes_for(const runtime::plan::Deployment& deployment);

}  // namespace millrace::server::http
