// How much a server may take at once, from what the process and its models allow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::server::http {

/// Beyond the limit of connections so many more are accepted only to be told so.
constexpr std::size_t kRefusedAtOnce = 64;

/// Raises the process's soft limit of open descriptors to the hard one; what the limit is afterwards. Call it
/// before other threads exist.
std::uint64_t raise_descriptor_limit();

/// `wanted` connections, or fewer: out of `descriptors`, 64 stay for the process itself, kRefusedAtOnce for
/// refused connections and 16 for every card, so that idle clients cannot keep a lost card from being opened
/// again. kEnvironment where none is left.
Result<std::size_t> connections_within(std::size_t wanted, std::uint64_t descriptors, std::size_t cards);

/// A body that holds any request for the model: 32 bytes an input element (a float32 in JSON has at most 16
/// characters, then the comma and the indentation) and 64 KiB around them, 1 MiB at least.
std::uint64_t body_bytes_for(const runtime::plan::ModelInfo& model);

/// What no request for the deployment's model is shorter than: its inputs in binary, as reals or quantised.
std::uint64_t least_body_bytes_for(const runtime::plan::Deployment& deployment);

}  // namespace millrace::server::http
