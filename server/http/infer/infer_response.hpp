// The answer to an infer request: JSON with the keys in the protocol's order, binary outputs behind it.
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

/// `outputs` are the model's, in model.outputs order; the response views those asked for as binary, and
/// `scratch` where the bytes are made here (binary classification results). kUnsupported where a value has no
/// JSON form. `memory` is an answer of before, whose room is used again.
Result<Response> write_infer_response(const runtime::plan::ModelInfo& model, std::string_view name,
                                      std::string_view version, const InferRequest& request,
                                      std::span<const std::span<std::byte>> outputs,
                                      std::vector<std::vector<std::byte>>& scratch, Response memory = {});

/// The `count` largest elements as "value:index:label", largest first, the lower index first among equals;
/// without the label where there is none. kUnsupported for datatypes that are not numbers with an order we
/// read.
Result<std::vector<std::string>> classify(const runtime::plan::TensorSignature& signature,
                                          std::span<const std::byte> bytes, std::uint32_t count,
                                          const std::vector<std::string>& labels);

}  // namespace millrace::server::http
