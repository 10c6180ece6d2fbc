// Writes the answer to an infer request: JSON with the keys in the protocol's order, then the binary outputs.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"
#include "server/http/infer/infer_request.hpp"
#include "server/http/message.hpp"

namespace millrace::server::http {

/// Returns the answer. `outputs` are the bytes of all of model.outputs, in that order. The answer has views into the
/// outputs that are sent as binary data, and into `scratch`, to which binary results of a classification are appended.
/// Returns kUnsupported if JSON cannot represent a value. `memory` is an earlier answer whose memory is reused.
Result<Response> write_infer_response(const runtime::plan::ModelInfo& model, std::string_view name,
                                      std::string_view version, const InferRequest& request,
                                      std::span<const std::span<std::byte>> outputs,
                                      std::vector<std::vector<std::byte>>& scratch, Response memory = {});

}  // namespace millrace::server::http
