#include "server/http/infer/infer_response.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "server/http/infer/tensor.hpp"
#include "server/http/json_text.hpp"

namespace millrace::server::http {
namespace {

using runtime::plan::TensorSignature;

/// Capacity in bytes that suffices for the JSON of most answers with binary outputs, so that it is allocated once.
constexpr std::size_t kUsualJson = 384;

std::vector<std::byte> as_bytes_tensor(const std::vector<std::string>& strings) {
  std::vector<std::byte> out;
  for (const std::string& text : strings) {
    const auto length = static_cast<std::uint32_t>(text.size());
    const auto* prefix = reinterpret_cast<const std::byte*>(&length);
    out.insert(out.end(), prefix, prefix + sizeof length);
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), begin, begin + text.size());
  }
  return out;
}

void append_key(std::string& out, std::string_view key, std::string_view text) {
  append_json_string(out, key);
  out += ':';
  append_json_string(out, text);
}

void append_shape(std::string& out, const std::vector<std::int64_t>& shape) {
  out += ",\"shape\":[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ',';
    append_number(out, shape[i]);
  }
  out += ']';
}

void append_binary(Response& response, std::span<const std::byte> bytes) {
  response.body += ",\"parameters\":{\"binary_data_size\":";
  append_number(response.body, bytes.size());
  response.body += '}';
  if (!bytes.empty()) response.binary.push_back(bytes);
}

Status append_classes(Response& response, const std::vector<std::string>& classes, bool binary,
                      std::vector<std::vector<std::byte>>& scratch) {
  // The shape has no batch axis, because Triton adds a batch axis only for models with max_batch_size > 0, and
  // Millrace's models have max_batch_size 0.
  append_shape(response.body, {static_cast<std::int64_t>(classes.size())});
  if (binary) {
    append_binary(response, scratch.emplace_back(as_bytes_tensor(classes)));
    return {};
  }
  response.body += ",\"data\":[";
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (i != 0) response.body += ',';
    append_json_string(response.body, classes[i]);
  }
  response.body += ']';
  return {};
}

/// Returns the `count` largest elements as "value:index:label", or "value:index" if the element has no label. The
/// largest comes first; among equal elements, the one with the lowest index. Returns the errors of doubles_of().
Result<std::vector<std::string>> classify(const TensorSignature& signature, std::span<const std::byte> bytes,
                                          std::uint32_t count, const std::vector<std::string>& labels) {
  MILLRACE_ASSIGN(const std::vector<double> values,
                  doubles_of(signature.datatype, bytes, "output '" + signature.name + "'"));
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) { return std::isnan(values[i]) ? -HUGE_VAL : values[i]; };
  const std::size_t kept = std::min<std::size_t>(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
      [&](std::size_t a, std::size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  const bool real = signature.datatype.starts_with("FP");
  std::vector<std::string> out;
  for (std::size_t i = 0; i < kept; ++i) {
    const std::size_t index = order[i];
    std::string text =
        real ? std::to_string(values[index]) : std::to_string(static_cast<std::int64_t>(values[index]));
    text += ":" + std::to_string(index);
    if (index < labels.size()) text += ":" + labels[index];
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace

Result<Response> write_infer_response(const runtime::plan::ModelInfo& model, std::string_view name,
                                      std::string_view version, const InferRequest& request,
                                      std::span<const std::span<std::byte>> outputs,
                                      std::vector<std::vector<std::byte>>& scratch, Response memory) {
  Response response;
  response.body = std::move(memory.body);
  response.body.clear();
  response.binary = std::move(memory.binary);
  response.binary.clear();
  std::string& body = response.body;
  body.reserve(kUsualJson);
  response.binary.reserve(request.outputs.size());
  const auto classified = std::count_if(request.outputs.begin(), request.outputs.end(),
                                        [](const auto& output) { return output.classes > 0; });
  scratch.reserve(scratch.size() + static_cast<std::size_t>(classified));
  body += '{';
  if (!request.id.empty()) {
    append_key(body, "id", request.id);
    body += ',';
  }
  append_key(body, "model_name", name);
  body += ',';
  append_key(body, "model_version", version);
  body += ",\"outputs\":[";
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const RequestedOutput& wanted = request.outputs[i];
    const TensorSignature& signature = model.outputs[wanted.index];
    const std::span<const std::byte> bytes = outputs[wanted.index];
    body += i == 0 ? "{" : ",{";
    append_key(body, "name", signature.name);
    body += ',';
    append_key(body, "datatype", wanted.classes > 0 ? "BYTES" : signature.datatype);
    if (wanted.classes > 0) {
      static const std::vector<std::string> kNone;
      const auto& labels = wanted.index == 0 ? model.labels : kNone;
      MILLRACE_ASSIGN(const auto classes, classify(signature, bytes, wanted.classes, labels));
      MILLRACE_TRY(append_classes(response, classes, wanted.binary, scratch));
    } else {
      append_shape(body, signature.shape);
      if (wanted.binary) {
        append_binary(response, bytes);
      } else {
        body += ",\"data\":";
        MILLRACE_TRY(append_numbers(body, signature.datatype, bytes, "output '" + signature.name + "'"));
      }
    }
    body += '}';
  }
  body += "]}";
  if (!response.binary.empty()) {
    response.content_type = "application/octet-stream";
    response.inference_header_length = body.size();
  }
  return response;
}

}  // namespace millrace::server::http
