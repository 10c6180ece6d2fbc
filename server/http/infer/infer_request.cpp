#include "server/http/infer/infer_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "runtime/base/text.hpp"
#include "server/http/infer/datatype.hpp"
#include "server/http/infer/infer_json.hpp"
#include "server/http/infer/json_tensor.hpp"
#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

using runtime::plan::ModelInfo;
using runtime::plan::TensorSignature;

Error bad(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

constexpr std::size_t kMaxShown = 64;
constexpr std::size_t kStackBytes = 4'096;  // for the JSON of a usual request

std::string shown(std::string_view text) {
  return "'" + std::string(clipped(text, kMaxShown)) + (text.size() > kMaxShown ? "…'" : "'");
}

template <class Shape>
std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size() && i < 16; ++i)
    out += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return out + (shape.size() > 16 ? ",…]" : "]");
}

template <class Signatures>
std::string names_of(const Signatures& signatures) {
  std::string out;
  for (const auto& signature : signatures) out += (out.empty() ? "" : ", ") + shown(signature.name);
  return out;
}

/// Where in the request a fault is. text() is called for messages only.
struct Where {
  std::string_view list;  // empty: the request itself
  std::size_t index = 0;
  std::optional<std::string_view> name;

  std::string text() const {
    if (list.empty()) return "request";
    std::string out = std::string(list) + "[" + std::to_string(index) + "]";
    if (name) out += " " + shown(*name);
    return out;
  }
};

std::optional<std::size_t> index_of(const std::vector<TensorSignature>& signatures, std::string_view name) {
  for (std::size_t i = 0; i < signatures.size(); ++i)
    if (signatures[i].name == name) return i;
  return std::nullopt;
}

Result<bool> as_bool(const Parameter& parameter, const Where& where) {
  if (const auto* value = std::get_if<bool>(&parameter.value)) return *value;
  return bad(where.text() + ".parameters." + std::string(parameter.name) + " must be true or false");
}

/// Whole numbers from 0; clients also send them as strings ("timeout": "500").
Result<std::uint64_t> as_count(const Parameter& parameter, const Where& where) {
  if (const auto* value = std::get_if<std::int64_t>(&parameter.value); value != nullptr && *value >= 0)
    return static_cast<std::uint64_t>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&parameter.value)) return *value;
  if (const auto* value = std::get_if<std::pmr::string>(&parameter.value);
      value != nullptr && !value->empty()) {
    std::uint64_t number = 0;
    const auto [end, code] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (code == std::errc() && end == value->data() + value->size()) return number;
  }
  return bad(where.text() + ".parameters." + std::string(parameter.name) +
             " must be a whole number of at least 0");
}

struct RequestParameters {
  bool binary_outputs = false;
  std::optional<std::chrono::microseconds> timeout;
  std::uint8_t priority = runtime::pipeline::kUsualPriority;
};

Result<RequestParameters> request_parameters(const Parameters& parameters) {
  // A day is longer than anyone waits, and far from overflowing a clock.
  static constexpr std::uint64_t kLongest = 86'400'000'000;
  RequestParameters out;
  const Where where;
  for (const Parameter& parameter : parameters) {
    if (parameter.name == "binary_data_output") {
      MILLRACE_ASSIGN(out.binary_outputs, as_bool(parameter, where));
    } else if (parameter.name == "timeout") {
      MILLRACE_ASSIGN(const std::uint64_t microseconds, as_count(parameter, where));
      if (microseconds > 0) out.timeout = std::chrono::microseconds(std::min(microseconds, kLongest));
    } else if (parameter.name == "priority") {
      MILLRACE_ASSIGN(const std::uint64_t priority, as_count(parameter, where));
      // 0: the usual one (Triton's clients send it where none is wanted); beyond the last: the last.
      using namespace runtime::pipeline;
      if (priority > 0)
        out.priority = static_cast<std::uint8_t>(std::min<std::uint64_t>(priority, kLastPriority));
    } else if (parameter.name.starts_with("sequence_")) {
      return Error(ErrorCode::kUnsupported, "parameters." + std::string(parameter.name) +
                                                ": sequences are not offered; models here keep no state");
    }
  }
  return out;
}

bool is_shared_memory(const Parameter& parameter) {
  return parameter.name.starts_with("shared_memory_");
}

Error no_shared_memory(const Where& where) {
  return Error(ErrorCode::kUnsupported,
               where.text() + ": shared memory is not offered; send the tensor in the request");
}

/// The type that an input came in: the model's own, or the integers that the model first makes of it.
struct InputType {
  const TensorSignature& signature;
  std::string_view datatype;
  const runtime::plan::QuantisedInput* quantised;  // null: the model's own

  std::uint64_t bytes() const { return elements_of(signature) * element_bytes(*parse_datatype(datatype)); }
};

const runtime::plan::QuantisedInput* quantised_at(QuantisedInputs all, std::size_t index) {
  return index < all.size() && all[index] ? &*all[index] : nullptr;
}

Result<InputType> check_signature(const InputDocument& input, const TensorSignature& signature,
                                  const runtime::plan::QuantisedInput* quantised, const Where& where) {
  if (!input.datatype) return bad(where.text() + " lacks 'datatype'");
  const std::string_view datatype = *input.datatype;
  if (!parse_datatype(datatype)) return bad(where.text() + ": unknown datatype " + shown(datatype));
  const bool integers = quantised != nullptr && datatype == quantised->datatype;
  if (datatype != signature.datatype && !integers)
    return bad(where.text() + ": datatype " + std::string(datatype) + " is not the model's " +
               signature.datatype +
               (quantised == nullptr ? "" : " nor its quantised " + quantised->datatype));
  if (!input.shape) return bad(where.text() + " lacks 'shape'");
  const auto& shape = *input.shape;
  if (!std::equal(shape.begin(), shape.end(), signature.shape.begin(), signature.shape.end())) {
    const bool batch = shape.size() == signature.shape.size() && shape.size() > 1 &&
                       std::equal(shape.begin() + 1, shape.end(), signature.shape.begin() + 1) &&
                       signature.shape.front() == 1 && shape.front() > 1;
    return bad(where.text() + ": shape " + shape_text(shape) + " is not the model's " +
               shape_text(signature.shape) +
               (batch ? "; batches are not offered: send a request a frame" : ""));
  }
  return InputType{signature, integers ? std::string_view(quantised->datatype) : signature.datatype,
                   integers ? quantised : nullptr};
}

Result<std::vector<std::byte>> json_input(const NumberList& data, const InputType& type, const Where& where) {
  const TensorSignature& signature = type.signature;
  const std::uint64_t expected = elements_of(signature);
  if (data.numbers.size() != expected)
    return bad(where.text() + ".data holds " + std::to_string(data.numbers.size()) + " elements; shape " +
               shape_text(signature.shape) + " needs " + std::to_string(expected));
  const bool flat = data.nesting.size() == 1;
  if (!flat &&
      !std::equal(data.nesting.begin(), data.nesting.end(), signature.shape.begin(), signature.shape.end(),
                  [](std::size_t a, std::int64_t b) { return static_cast<std::int64_t>(a) == b; }))
    return bad(where.text() + ".data is nested differently from shape " + shape_text(signature.shape) +
               "; write it flat or nested exactly so");
  return bytes_of_numbers(*parse_datatype(type.datatype), data.numbers, where.text());
}

/// The binary tensors behind the JSON, taken in the order in which the inputs are named.
class BinaryTensors {
 public:
  explicit BinaryTensors(std::span<const std::byte> bytes) : rest_(bytes) {}

  Result<std::span<const std::byte>> take(std::uint64_t announced, const InputType& type,
                                          const Where& where) {
    const std::uint64_t expected = type.bytes();
    if (announced != expected)
      return bad(where.text() + ": binary_data_size " + std::to_string(announced) + "; " +
                 std::string(type.datatype) + " of shape " + shape_text(type.signature.shape) + " takes " +
                 std::to_string(expected) + " bytes");
    if (rest_.size() < announced)
      return bad(where.text() + ": the body ends " + std::to_string(announced - rest_.size()) +
                 " bytes before the end of this tensor");
    const auto out = rest_.first(announced);
    rest_ = rest_.subspan(announced);
    return out;
  }
  std::size_t left() const { return rest_.size(); }

 private:
  std::span<const std::byte> rest_;
};

/// Converts integers to the reals they stand for. The model makes the same integers of them again.
Result<std::span<const std::byte>> as_reals(const runtime::plan::QuantisedInput& from,
                                            std::span<const std::byte> integers, InferRequest& request,
                                            const Where& where) {
  auto reals = runtime::plan::dequantised(from, integers);
  if (!reals) return bad(where.text() + ": " + reals.error().message());
  return std::span<const std::byte>(request.converted.emplace_back(std::move(reals).value()));
}

Status take_inputs(const ModelInfo& model, const InferDocument& document, std::span<const std::byte> tail,
                   InferRequest& request, QuantisedInputs quantised, Memory* memory) {
  if (!document.inputs) return bad("the request lacks 'inputs'");
  request.inputs.resize(model.inputs.size());
  std::pmr::vector<bool> given(model.inputs.size(), false, memory);
  BinaryTensors binary(tail);
  for (std::size_t i = 0; i < document.inputs->size(); ++i) {
    const InputDocument& input = (*document.inputs)[i];
    Where where{"inputs", i, {}};
    if (!input.name) return bad(where.text() + " lacks 'name'");
    where.name = *input.name;
    const auto index = index_of(model.inputs, *input.name);
    if (!index) return bad(where.text() + ": the model has no such input; it has " + names_of(model.inputs));
    if (given[*index]) return bad(where.text() + " occurs twice");
    given[*index] = true;
    const TensorSignature& signature = model.inputs[*index];
    MILLRACE_ASSIGN(const InputType type,
                    check_signature(input, signature, quantised_at(quantised, *index), where));

    std::optional<std::uint64_t> binary_size;
    for (const Parameter& parameter : input.parameters) {
      if (is_shared_memory(parameter)) return no_shared_memory(where);
      if (parameter.name == "binary_data_size") {
        MILLRACE_ASSIGN(binary_size, as_count(parameter, where));
      }
    }
    if (binary_size && input.data)
      return bad(where.text() + " has both 'data' and binary_data_size; send one");
    if (binary_size) {
      MILLRACE_ASSIGN(request.inputs[*index], binary.take(*binary_size, type, where));
    } else if (input.data) {
      MILLRACE_ASSIGN(auto bytes, json_input(*input.data, type, where));
      request.inputs[*index] = request.converted.emplace_back(std::move(bytes));
    } else {
      return bad(where.text() + " lacks 'data' (or parameters.binary_data_size and bytes behind the JSON)");
    }
    if (type.quantised != nullptr) {
      MILLRACE_ASSIGN(request.inputs[*index],
                      as_reals(*type.quantised, request.inputs[*index], request, where));
    }
  }
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i]) return bad("inputs lacks " + shown(model.inputs[i].name));
  if (binary.left() != 0)
    return bad("the body has " + std::to_string(binary.left()) +
               " bytes behind the last tensor that no input names");
  return {};
}

Result<RequestedOutput> take_output(const OutputDocument& output, const TensorSignature& signature,
                                    std::size_t index, bool binary, const Where& where) {
  RequestedOutput out{index, binary, 0};
  for (const Parameter& parameter : output.parameters) {
    if (is_shared_memory(parameter)) return no_shared_memory(where);
    if (parameter.name == "binary_data") {
      MILLRACE_ASSIGN(out.binary, as_bool(parameter, where));
    } else if (parameter.name == "classification") {
      MILLRACE_ASSIGN(const std::uint64_t classes, as_count(parameter, where));
      if (classes == 0) return bad(where.text() + ".parameters.classification must be at least 1");
      out.classes = static_cast<std::uint32_t>(std::min(classes, elements_of(signature)));
    }
  }
  return out;
}

void take_all_outputs(const ModelInfo& model, bool binary, InferRequest& request) {
  for (std::size_t i = 0; i < model.outputs.size(); ++i) request.outputs.push_back({i, binary, 0});
}

Status take_outputs(const ModelInfo& model, const InferDocument& document, bool binary,
                    InferRequest& request) {
  if (!document.outputs || document.outputs->empty()) {
    take_all_outputs(model, binary, request);
    return {};
  }
  for (std::size_t i = 0; i < document.outputs->size(); ++i) {
    const OutputDocument& output = (*document.outputs)[i];
    Where where{"outputs", i, {}};
    if (!output.name) return bad(where.text() + " lacks 'name'");
    where.name = *output.name;
    const auto index = index_of(model.outputs, *output.name);
    if (!index)
      return bad(where.text() + ": the model has no such output; it has " + names_of(model.outputs));
    for (const RequestedOutput& earlier : request.outputs)
      if (earlier.index == *index) return bad(where.text() + " occurs twice");
    MILLRACE_ASSIGN(const RequestedOutput taken,
                    take_output(output, model.outputs[*index], *index, binary, where));
    request.outputs.push_back(taken);
  }
  return {};
}

Status raw_request(const ModelInfo& model, std::span<const std::byte> body, InferRequest& request,
                   QuantisedInputs quantised) {
  if (model.inputs.size() != 1)
    return bad("Inference-Header-Content-Length: 0 (raw mode) needs a model of one input; this one has " +
               std::to_string(model.inputs.size()) + ": " + names_of(model.inputs));
  const TensorSignature& signature = model.inputs.front();
  const auto* integers = quantised_at(quantised, 0);
  if (body.size() == bytes_of(signature)) {
    request.inputs.push_back(body);
  } else if (integers != nullptr &&
             body.size() == InputType{signature, integers->datatype, integers}.bytes()) {
    MILLRACE_ASSIGN(const auto reals, as_reals(*integers, body, request, {"inputs", 0, signature.name}));
    request.inputs.push_back(reals);
  } else {
    return bad("the body is " + std::to_string(body.size()) + " bytes; input " + shown(signature.name) +
               " (" + signature.datatype + " " + shape_text(signature.shape) + ") takes " +
               std::to_string(bytes_of(signature)));
  }
  take_all_outputs(model, true, request);
  return {};
}

/// Whether `text` holds bytes that no JSON text holds (RFC 8259): it is not UTF-8, or it has control
/// characters other than white space.
bool is_binary(std::string_view text) {
  return !is_utf8(text) || std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r';
  });
}

/// Added to a JSON error if the body looks binary and the header that announces binary data is missing.
std::string_view binary_hint(std::string_view body) {
  if (!is_binary(body)) return "";
  return ". Binary data needs the header Inference-Header-Content-Length: 0 if the body is the tensor alone, "
         "otherwise the number of bytes of JSON before the tensors";
}

}  // namespace

Status parse_infer_request(const ModelInfo& model, std::span<const std::byte> body,
                           std::optional<std::string_view> header_length, InferRequest& request,
                           QuantisedInputs quantised) {
  request.id.clear();
  request.timeout.reset();
  request.priority = runtime::pipeline::kUsualPriority;
  request.inputs.clear();
  request.outputs.clear();
  request.converted.clear();
  std::size_t json_bytes = body.size();
  if (header_length) {
    const char* end = header_length->data() + header_length->size();
    const auto [stop, code] = std::from_chars(header_length->data(), end, json_bytes);
    if (code != std::errc() || stop != end || header_length->empty())
      return bad("Inference-Header-Content-Length " + shown(*header_length) + " is not a whole number");
    if (json_bytes > body.size())
      return bad("Inference-Header-Content-Length " + std::to_string(json_bytes) +
                 " is more than the body's " + std::to_string(body.size()) + " bytes");
    if (json_bytes == 0) return raw_request(model, body, request, quantised);
  }

  InferLimits limits;
  for (const auto& signature : model.inputs) limits.data_elements += elements_of(signature);
  const std::string_view json(reinterpret_cast<const char*>(body.data()), json_bytes);
  std::array<std::byte, kStackBytes> stack;
  std::pmr::monotonic_buffer_resource memory(stack.data(), stack.size());
  auto parsed = parse_infer_json(json, limits, &memory);
  if (!parsed) return bad(parsed.error().message() + std::string(header_length ? "" : binary_hint(json)));
  const InferDocument document = std::move(parsed).value();

  request.id = document.id;
  MILLRACE_ASSIGN(const RequestParameters parameters, request_parameters(document.parameters));
  request.timeout = parameters.timeout;
  request.priority = parameters.priority;
  MILLRACE_TRY(take_inputs(model, document, body.subspan(json_bytes), request, quantised, &memory));
  return take_outputs(model, document, parameters.binary_outputs, request);
}

}  // namespace millrace::server::http
