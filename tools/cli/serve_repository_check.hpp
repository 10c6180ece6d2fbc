// What `serve --check-config` finds in a repository: which version of each model a start would serve.
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "tools/cli/serve_inputs.hpp"

namespace millrace::cli {

/// Reads every version that a start would try, until one of each model loads; the log says which that is, and
/// why others would be passed over. Compiles nothing: of a model.onnx it says that it would be compiled. Each
/// model is held against the cards alone. An error, with the code of the first, where a version that should
/// be served does not load, also where an older one would be served in its place. Models that a deployment of
/// the settings replaces are left out, as a start leaves them out.
Status check_repository(const LiveSettings& live, const Deployments& deployments,
                        const runtime::plan::Cluster& cluster);

}  // namespace millrace::cli
