// An infer request for one model: every tensor is checked against the model's signature and stands in the model's
// order. Pure functions over bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/quantised.hpp"

namespace millrace::server::http {

struct RequestedOutput {
  std::size_t index = 0;  // in model.outputs
  bool binary = false;
  // > 0: return this many of the largest elements instead of the tensor (Triton's classification extension)
  std::uint32_t classes = 0;
};

/// Can be filled again and keeps its memory.
struct InferRequest {
  std::string id;
  std::optional<std::chrono::microseconds> timeout;  // > 0 where set
  std::uint8_t priority = runtime::pipeline::kUsualPriority;
  // in model.inputs order; views into the body or into `converted`
  std::vector<std::span<const std::byte>> inputs;
  std::vector<RequestedOutput> outputs;           // in the order of the request, or all in the model's order
  std::vector<std::vector<std::byte>> converted;  // tensors that came as JSON
};

/// The integers that may come instead of an input's own type, in model.inputs order. Empty: none.
using QuantisedInputs = std::span<const std::optional<runtime::plan::QuantisedInput>>;

/// Reads `body` into `request`, whose old contents go and which views the body. `header_length` is the text of
/// Inference-Header-Content-Length, if the request had it: the body is that many bytes of JSON and then the binary
/// tensors; "0" is raw mode. kInvalidInput naming the field; kUnsupported for what is known and not offered
/// (sequences, shared memory); then the contents of `request` mean nothing.
///
/// Allocates nothing if `request` has room already and tensors come as binary data of the model's own types.
Status parse_infer_request(const runtime::plan::ModelInfo& model, std::span<const std::byte> body,
                           std::optional<std::string_view> header_length, InferRequest& request,
                           QuantisedInputs quantised = {});

}  // namespace millrace::server::http
