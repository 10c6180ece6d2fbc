// Parses an infer request and checks every tensor against the model's signature.
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
  std::size_t index = 0;  // index in model.outputs
  bool binary = false;
  // If this number is above 0, the answer has this many of the largest elements instead of the tensor (Triton's
  // classification extension).
  std::uint32_t classes = 0;
};

/// A checked infer request. parse_infer_request() can fill the same object again and then reuses its memory.
struct InferRequest {
  std::string id;
  std::optional<std::chrono::microseconds> timeout;  // > 0 if set
  std::uint8_t priority = runtime::pipeline::kUsualPriority;
  // The bytes of each input, in the order of model.inputs. They are views into the body or into `converted`.
  std::vector<std::span<const std::byte>> inputs;
  std::vector<RequestedOutput> outputs;  // in the request's order, or all outputs in the model's order
  std::vector<std::vector<std::byte>> converted;  // inputs that came as JSON or quantised
};

/// For each of model.inputs, the quantised type that a client may send instead of the input's own type, if there is
/// one. If the span is empty, no input has one.
using QuantisedInputs = std::span<const std::optional<runtime::plan::QuantisedInput>>;

/// Parses `body` and replaces the contents of `request`, which then has views into `body`. `header_length` is the value
/// of Inference-Header-Content-Length, if the request has it: the number of bytes of JSON, which the binary tensors
/// follow. "0" means raw mode. Returns kInvalidInput, naming the field, and kUnsupported for sequences and shared
/// memory. After an error the contents of `request` are unspecified.
///
/// Allocates nothing if `request` has enough capacity and all tensors are binary data of the model's own types.
Status parse_infer_request(const runtime::plan::ModelInfo& model, std::span<const std::byte> body,
                           std::optional<std::string_view> header_length, InferRequest& request,
                           QuantisedInputs quantised = {});

}  // namespace millrace::server::http
