// For `serve --check-config`: finds out which version of each model in the repository the server would serve.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "tools/cli/serve_inputs.hpp"

namespace millrace::cli {

/// Reads each model's versions in the order in which the server tries them at its start, until one loads.
/// Logs that version, and why earlier versions would be skipped. Compiles nothing: for a model.onnx, logs
/// that the start would compile it. Checks each model against the whole cluster, as if no other model used
/// cards. Skips a model if the settings name a deployment of the same model. Returns the first error if a
/// version that should be served does not load, even if an older version would be served instead.
Status check_repository(const LiveSettings& live, const Deployments& deployments,
                        const runtime::plan::Cluster& cluster);

}  // namespace millrace::cli
