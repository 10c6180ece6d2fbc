// Parses arbitrary bodies of infer requests: JSON header, binary tensors, raw mode and quantised inputs. An accepted
// request must fit the model exactly.
//
// Bit 0 of the first input byte selects the model. If bit 1 is set, the request has an Inference-Header-Content-Length,
// whose value is in the next two bytes. The rest of the input is the body.
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "server/http/infer/infer_request.hpp"
#include "server/http/infer/tensor.hpp"

namespace {

using namespace millrace;
using namespace millrace::server::http;

void require(bool holds) {
  if (!holds) std::abort();
}

runtime::plan::ModelInfo one_input() {
  runtime::plan::ModelInfo model;
  model.inputs = {{"x", "FP32", {1, 2, 2}}};
  model.outputs = {{"y", "FP32", {1, 4}}};
  return model;
}

runtime::plan::ModelInfo every_type() {
  runtime::plan::ModelInfo model;
  for (const char* type : {"BOOL", "UINT8", "INT16", "UINT32", "INT64", "UINT64", "FP16", "FP32", "FP64"})
    model.inputs.push_back({type, type, {1, 2}});
  model.outputs = {{"y", "INT8", {1, 4}}, {"z", "FP64", {1}}};
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto one = one_input(), all = every_type();
  static const std::vector<std::optional<runtime::plan::QuantisedInput>> quantised = {
      runtime::plan::QuantisedInput{"INT8", 0.5F, 3, -8, 7}};
  if (size < 3) return 0;
  const bool first = (data[0] & 1U) == 0;
  const auto& model = first ? one : all;
  std::optional<std::string_view> header;
  std::string length;
  if ((data[0] & 2U) != 0) {
    length = std::to_string(data[1] + 256U * data[2]);
    header = length;
  }
  const auto body = std::as_bytes(std::span(data + 3, size - 3));
  static InferRequest request;  // reused for every request, because the server reuses it too
  const Status parsed =
      parse_infer_request(model, body, header, request, first ? quantised : QuantisedInputs());
  if (!parsed.ok()) {
    require(!parsed.error().message().empty());
    require(parsed.error().code() == ErrorCode::kInvalidInput ||
            parsed.error().code() == ErrorCode::kUnsupported);
    return 0;
  }
  require(request.inputs.size() == model.inputs.size());
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    require(request.inputs[i].size() == bytes_of(model.inputs[i]));
  require(!request.outputs.empty() && request.outputs.size() <= model.outputs.size());
  for (const auto& output : request.outputs) require(output.index < model.outputs.size());
  require(request.priority >= runtime::pipeline::kFirstPriority &&
          request.priority <= runtime::pipeline::kLastPriority);
  require(!request.timeout || request.timeout->count() > 0);
  return 0;
}
