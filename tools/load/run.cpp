#include "tools/load/run.hpp"

#include <algorithm>

#include "tools/clients/http_client.hpp"

namespace millrace::load {
namespace {

/// Returns the text as a JSON string. Names come from the server and can contain any character.
std::string quoted(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      out += "\\u00";
      out += kHex[u >> 4U];
      out += kHex[u & 15U];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_header(const client::ModelInfo& model, std::span<const std::vector<std::byte>> inputs) {
  std::string out = "{\"inputs\":[";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const client::TensorInfo& tensor = model.inputs[i];
    out += (i == 0 ? "" : ",") + std::string("{\"name\":") + quoted(tensor.name) +
           ",\"datatype\":" + quoted(tensor.datatype) + ",\"shape\":[";
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis)
      out += (axis == 0 ? "" : ",") + std::to_string(tensor.shape[axis]);
    out += "],\"parameters\":{\"binary_data_size\":" + std::to_string(inputs[i].size()) + "}}";
  }
  return out + "],\"parameters\":{\"binary_data_output\":true}}";
}

}  // namespace

void Tally::merge(const Tally& other) {
  latency.merge(other.latency);
  send_delay.merge(other.send_delay);
  late += other.late;
  for (const auto& [why, count] : other.errors) errors[why] += count;
  last = std::max(last, other.last);
}

void Tally::finish(const Schedule& schedule) {
  if (const auto unsent = schedule.untaken(); unsent > 0) failed("unsent", unsent);
  measured = std::max(last, schedule.end()) - schedule.measured_from();
}

std::string infer_request(const Address& address, const client::ModelInfo& model,
                          std::span<const std::vector<std::byte>> inputs, bool raw) {
  const std::string header = raw ? "" : json_header(model, inputs);
  std::size_t bytes = header.size();
  for (const auto& input : inputs) bytes += input.size();
  const std::string& token = address.access.token;
  std::string out = "POST /v2/models/" + clients::percent_encoded(model.name) +
                    "/infer HTTP/1.1\r\nHost: " + clients::host_header(address.url) +
                    (token.empty() ? "" : "\r\nAuthorization: Bearer " + token) +
                    "\r\nContent-Type: application/octet-stream\r\nInference-Header-Content-Length: " +
                    std::to_string(header.size()) + "\r\nContent-Length: " + std::to_string(bytes) +
                    "\r\n\r\n" + header;
  for (const auto& input : inputs) out.append(reinterpret_cast<const char*>(input.data()), input.size());
  return out;
}

Error error_of(const client::Status& status) {
  switch (status.code) {
    case client::Code::kUntrusted:
      return Error(ErrorCode::kEnvironment, status.message);
    case client::Code::kInvalid:
    case client::Code::kDenied:
      return Error(ErrorCode::kInvalidInput, status.message);
    case client::Code::kNotFound:
      return Error(ErrorCode::kNotFound, status.message);
    case client::Code::kBusy:
      return Error(ErrorCode::kResourceExhausted, status.message);
    case client::Code::kDeadline:
      return Error(ErrorCode::kDeadlineExceeded, status.message);
    default:
      return Error(ErrorCode::kUnavailable, status.message);
  }
}

}  // namespace millrace::load
