#include "server/http/infer/infer_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "runtime/base/text.hpp"
#include "server/http/infer/infer_json.hpp"
#include "server/http/infer/tensor.hpp"
#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

using runtime::plan::ModelInfo;
using runtime::plan::QuantisedInput;
using runtime::plan::TensorSignature;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kMaxShown = 64;
constexpr std::size_t kStackBytes = 4'096;  // enough for the parsed JSON of most requests
// A day in microseconds. Longer timeouts are shortened to it, so that no deadline overflows the clock.
constexpr std::uint64_t kLongestTimeout = 86'400'000'000;

Error bad(std::string message) {
  return Error(ErrorCode::kInvalidInput, std::move(message));
}

std::string shown(std::string_view text) {
  const std::string start(clipped(text, kMaxShown));
  return "'" + start + (text.size() > kMaxShown ? "…'" : "'");
}

template <class Shape>
std::string shape_text(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size() && i < 16; ++i)
    out += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return out + (shape.size() > 16 ? ",…]" : "]");
}

std::string names_of(const std::vector<TensorSignature>& signatures) {
  std::string out;
  for (const auto& signature : signatures) out += (out.empty() ? "" : ", ") + shown(signature.name);
  return out;
}

/// Checks a request against the model's signature and fills `request`.
class RequestReader {
 public:
  RequestReader(const ModelInfo& model, QuantisedInputs quantised, InferRequest& request)
      : model_(model), quantised_(quantised), request_(request) {}

  /// Reads a request with JSON. `binary` has the tensors that follow the JSON, in the order of the document's inputs.
  Status read(const InferDocument& document, Bytes binary) {
    request_.id = document.id;
    const auto& [timeout, priority, size, classes, binary_outputs, binary_output] = document.parameters;
    if (timeout.value_or(0) > 0)
      request_.timeout = std::chrono::microseconds(std::min(*timeout, kLongestTimeout));
    // Triton's clients send 0 for the default priority. Numbers beyond the last priority mean the last priority.
    if (priority.value_or(0) > 0)
      request_.priority =
          static_cast<std::uint8_t>(std::min<std::uint64_t>(*priority, runtime::pipeline::kLastPriority));
    MILLRACE_TRY(take_inputs(document, binary));
    return take_outputs(document, binary_outputs.value_or(false));
  }

  /// Reads a request in raw mode: the whole body is the model's only input, and all outputs are binary.
  Status read_raw(Bytes body) {
    if (model_.inputs.size() != 1)
      return bad(
          "Inference-Header-Content-Length: 0 (raw mode) needs a model of one input; "
          "this model has " +
          std::to_string(model_.inputs.size()) + ": " + names_of(model_.inputs));
    const TensorSignature& signature = model_.inputs.front();
    const QuantisedInput* integers = quantised_at(0);
    if (body.size() != bytes_of(signature)) {
      if (integers == nullptr || body.size() != bytes_of(signature, integers->datatype))
        return bad("the body is " + std::to_string(body.size()) + " bytes; input " + shown(signature.name) +
                   " (" + signature.datatype + " " + shape_text(signature.shape) + ") takes " +
                   std::to_string(bytes_of(signature)));
      where_ = {"inputs", 0, signature.name};
      MILLRACE_ASSIGN(body, as_reals(*integers, body));
    }
    request_.inputs.push_back(body);
    take_all_outputs(true);
    return {};
  }

 private:
  using Tensors = std::pmr::vector<TensorDocument>;

  /// The reader's position in the request, for error messages.
  struct Where {
    std::string_view list;
    std::size_t index = 0;
    std::optional<std::string_view> name;
  };

  /// Returns an error about the current tensor. Its message is the position ("inputs[0] 'x'"), then `what`.
  Error fault(const std::string& what) const {
    return bad(std::string(where_.list) + "[" + std::to_string(where_.index) + "]" +
               (where_.name ? " " + shown(*where_.name) : "") + what);
  }

  const QuantisedInput* quantised_at(std::size_t index) const {
    return index < quantised_.size() && quantised_[index] ? &*quantised_[index] : nullptr;
  }

  /// Returns the index in `signatures` of the tensor that tensors[at] names. Returns an error if no signature has that
  /// name, or if an earlier tensor has it too.
  Result<std::size_t> find(std::string_view list, const Tensors& tensors, std::size_t at,
                           const std::vector<TensorSignature>& signatures) {
    where_ = {list, at, {}};
    if (!tensors[at].name) return fault(" lacks 'name'");
    where_.name = *tensors[at].name;
    for (std::size_t earlier = 0; earlier < at; ++earlier)
      if (tensors[earlier].name == tensors[at].name) return fault(" occurs twice");
    for (std::size_t i = 0; i < signatures.size(); ++i)
      if (signatures[i].name == *where_.name) return i;
    const std::string kind(list.substr(0, list.size() - 1));
    return fault(": the model has no such " + kind + "; it has " + names_of(signatures));
  }

  Status take_inputs(const InferDocument& document, Bytes binary) {
    if (!document.inputs) return bad("the request lacks 'inputs'");
    const Tensors& inputs = *document.inputs;
    request_.inputs.resize(model_.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      MILLRACE_ASSIGN(const std::size_t index, find("inputs", inputs, i, model_.inputs));
      MILLRACE_ASSIGN(request_.inputs[index], take_input(inputs[i], index, binary));
    }
    for (const TensorSignature& signature : model_.inputs)
      if (std::none_of(inputs.begin(), inputs.end(),
                       [&](const auto& input) { return std::string_view(*input.name) == signature.name; }))
        return bad("inputs lacks " + shown(signature.name));
    if (!binary.empty())
      return bad("the body has " + std::to_string(binary.size()) +
                 " bytes after the last tensor; these bytes belong to no input");
    return {};
  }

  /// Returns the input's bytes in the model's own type. If the input came as binary data, removes it from the front of
  /// `binary`.
  Result<Bytes> take_input(const TensorDocument& input, std::size_t index, Bytes& binary) {
    const TensorSignature& signature = model_.inputs[index];
    const QuantisedInput* integers = quantised_at(index);
    MILLRACE_TRY(check_type(input, signature, integers));
    if (std::string_view(*input.datatype) == signature.datatype) integers = nullptr;
    const auto& size = input.parameters.binary_data_size;
    if (size && input.data) return fault(" has both 'data' and binary_data_size; send only one of them");
    Bytes out;
    if (size) {
      const std::uint64_t expected = bytes_of(signature, *input.datatype);
      if (*size != expected)
        return fault(": binary_data_size " + std::to_string(*size) + "; " + std::string(*input.datatype) +
                     " of shape " + shape_text(signature.shape) + " takes " + std::to_string(expected) +
                     " bytes");
      if (binary.size() < *size)
        return fault(": the body ends " + std::to_string(*size - binary.size()) +
                     " bytes before the end of this tensor");
      out = binary.first(*size);
      binary = binary.subspan(*size);
    } else if (input.data) {
      MILLRACE_ASSIGN(out, from_json(*input.data, *input.datatype, signature));
    } else {
      return fault(" lacks 'data' (or parameters.binary_data_size and bytes after the JSON)");
    }
    return integers == nullptr ? out : as_reals(*integers, out);
  }

  Status check_type(const TensorDocument& input, const TensorSignature& signature,
                    const QuantisedInput* integers) const {
    if (!input.datatype) return fault(" lacks 'datatype'");
    const std::string_view datatype = *input.datatype;
    if (!is_datatype(datatype)) return fault(": unknown datatype " + shown(datatype));
    if (datatype != signature.datatype && (integers == nullptr || datatype != integers->datatype))
      return fault(": datatype " + std::string(datatype) + " is not the model's " + signature.datatype +
                   (integers == nullptr ? "" : " nor its quantised " + integers->datatype));
    if (!input.shape) return fault(" lacks 'shape'");
    const auto& shape = *input.shape;
    const auto& wanted = signature.shape;
    if (std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end())) return {};
    const bool batch = shape.size() == wanted.size() && shape.size() > 1 && wanted.front() == 1 &&
                       shape.front() > 1 && std::equal(shape.begin() + 1, shape.end(), wanted.begin() + 1);
    return fault(": shape " + shape_text(shape) + " is not the model's " + shape_text(wanted) +
                 (batch ? "; batches are not supported: send one request per frame" : ""));
  }

  Result<Bytes> from_json(const NumberList& data, std::string_view datatype,
                          const TensorSignature& signature) {
    const auto& shape = signature.shape;
    const std::uint64_t expected = elements_of(signature);
    if (data.numbers.size() != expected)
      return fault(".data holds " + std::to_string(data.numbers.size()) + " elements; shape " +
                   shape_text(shape) + " needs " + std::to_string(expected));
    const bool flat = data.nesting.size() == 1;
    if (!flat && !std::equal(data.nesting.begin(), data.nesting.end(), shape.begin(), shape.end(),
                             [](std::size_t a, std::int64_t b) { return std::cmp_equal(a, b); }))
      return fault(".data is nested differently from shape " + shape_text(shape) +
                   "; write it flat or nested exactly so");
    auto bytes = bytes_of_numbers(datatype, data.numbers);
    if (!bytes) return fault(bytes.error().message());
    return Bytes(request_.converted.emplace_back(std::move(bytes).value()));
  }

  /// Converts quantised integers to the reals that they represent. The model quantises these to the same integers.
  Result<Bytes> as_reals(const QuantisedInput& from, Bytes integers) {
    auto reals = runtime::plan::dequantised(from, integers);
    if (!reals) return fault(": " + reals.error().message());
    return Bytes(request_.converted.emplace_back(std::move(reals).value()));
  }

  void take_all_outputs(bool binary) {
    for (std::size_t i = 0; i < model_.outputs.size(); ++i) request_.outputs.push_back({i, binary, 0});
  }

  Status take_outputs(const InferDocument& document, bool binary) {
    if (!document.outputs || document.outputs->empty()) {
      take_all_outputs(binary);
      return {};
    }
    const Tensors& outputs = *document.outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      MILLRACE_ASSIGN(const std::size_t index, find("outputs", outputs, i, model_.outputs));
      const Parameters& parameters = outputs[i].parameters;
      RequestedOutput out{index, parameters.binary_data.value_or(binary), 0};
      if (const auto& classes = parameters.classification) {
        if (*classes == 0) return fault(".parameters.classification must be at least 1");
        out.classes = static_cast<std::uint32_t>(std::min(*classes, elements_of(model_.outputs[index])));
      }
      request_.outputs.push_back(out);
    }
    return {};
  }

  const ModelInfo& model_;
  const QuantisedInputs quantised_;
  InferRequest& request_;
  Where where_;
};

/// Whether `text` cannot be JSON (RFC 8259), because it is not UTF-8 or has control characters besides white space.
bool is_binary(std::string_view text) {
  return !is_utf8(text) || std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r';
  });
}

/// Returns a hint for the message of a JSON error: the request seems to lack the header that announces binary data.
/// Returns "" if the body does not look binary.
std::string_view binary_hint(std::string_view body) {
  if (!is_binary(body)) return "";
  return ". Binary data needs the header Inference-Header-Content-Length: "
         "give 0 if the body is only the tensor, otherwise the number of bytes of JSON before the tensors";
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
  RequestReader reader(model, quantised, request);
  std::size_t json_bytes = body.size();
  if (header_length) {
    const char* end = header_length->data() + header_length->size();
    const auto [stop, code] = std::from_chars(header_length->data(), end, json_bytes);
    if (code != std::errc() || stop != end || header_length->empty())
      return bad("Inference-Header-Content-Length " + shown(*header_length) + " is not a whole number");
    if (json_bytes > body.size())
      return bad("Inference-Header-Content-Length " + std::to_string(json_bytes) +
                 " is more than the body's " + std::to_string(body.size()) + " bytes");
    if (json_bytes == 0) return reader.read_raw(body);
  }

  std::uint64_t elements = 0;
  for (const auto& signature : model.inputs) elements += elements_of(signature);
  const std::string_view json(reinterpret_cast<const char*>(body.data()), json_bytes);
  std::array<std::byte, kStackBytes> stack;
  std::pmr::monotonic_buffer_resource memory(stack.data(), stack.size());
  auto parsed = parse_infer_json(json, elements, &memory);
  if (parsed) return reader.read(*parsed, body.subspan(json_bytes));
  const Error& error = parsed.error();
  return Error(error.code(), error.message() + std::string(header_length ? "" : binary_hint(json)));
}

}  // namespace millrace::server::http
