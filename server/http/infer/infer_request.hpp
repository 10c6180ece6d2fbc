// An infer request made ready for one model: every tensor checked against the model's signature, in the
// model's order. Pure functions over bytes.
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
  // > 0: not the tensor but its so many largest elements, as the classification extension has it
  std::uint32_t classes = 0;
};

/// Can be filled again: its memory stays.
struct InferRequest {
  std::string id;
  std::optional<std::chrono::microseconds> timeout;  // > 0 where set
  std::uint8_t priority = runtime::pipeline::kUsualPriority;
  // model.inputs order; views into the body or into `converted`
  std::vector<std::span<const std::byte>> inputs;
  std::vector<RequestedOutput> outputs;           // in the order asked for, else model.outputs order
  std::vector<std::vector<std::byte>> converted;  // tensors that came as JSON
};

/// `header_length` is the text of Inference-Header-Content-Length, where the request had it: the body is that
/// many bytes of JSON and then the binary tensors; "0" is raw mode. kInvalidInput naming the field,
/// kUnsupported for what is understood and not offered (sequences, shared memory). The result views `body`.
Result<InferRequest> parse_infer_request(const runtime::plan::ModelInfo& model,
                                         std::span<const std::byte> body,
                                         std::optional<std::string_view> header_length);

/// What may come instead of an input's own type, in model.inputs order; empty: nothing.
using QuantisedInputs = std::span<const std::optional<runtime::plan::QuantisedInput>>;

/// The same into `request`, whose old contents are forgotten. Allocates nothing where `request` has room
/// already and tensors come as binary data of the model's own types. After an error `request` holds nothing
/// of use.
Status parse_infer_request(const runtime::plan::ModelInfo& model, std::span<const std::byte> body,
                           std::optional<std::string_view> header_length, InferRequest& request,
                           QuantisedInputs quantised = {});

}  // namespace millrace::server::http
