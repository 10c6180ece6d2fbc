// Tells for `serve --check-config` which version of each model in the repository a start would serve.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "tools/cli/serve_inputs.hpp"

namespace millrace::cli {

/// For each model, reads its versions in the order in which a start would try them, until one loads. Logs
/// that version and why earlier ones would be skipped. Compiles nothing: for a model.onnx, logs that a start
/// would compile it. Checks each model against the whole cluster, as if no other model used cards. Skips
/// models that a deployment of the settings replaces, as a start does.
/// Fails with the first error if a version that should be served does not load, even if an older version
/// would be served instead.
Status check_repository(const LiveSettings& live, const Deployments& deployments,
                        const runtime::plan::Cluster& cluster);

}  // namespace millrace::cli
