// `millrace infer`: reads files into frames, sends the frames to a server and prints the top classes.

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iostream>
#include <ostream>
#include <utility>

#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tools/cli/access.hpp"
#include "tools/cli/commands.hpp"
#include "tools/clients/http_client.hpp"
#include "tools/clients/samples.hpp"

namespace millrace::cli {
namespace {

namespace json = boost::json;
using clients::HttpClient;
using clients::InputDescription;

/// The description of a model that the server sends. `output` has no layout and no scale.
struct ModelDescription {
  std::string name;
  std::vector<InputDescription> inputs;  // at least one; only the first has a layout and scales
  InputDescription output;
  std::vector<std::string> labels;
};

struct FrameResult {
  std::string source;
  std::size_t frame = 0;
  std::vector<std::byte> output;
  std::vector<double> scores;
};

Error unexpected(const std::string& target) {
  return Error(ErrorCode::kInvalidInput, target + ": the answer does not follow the Open Inference Protocol");
}

/// Makes an error from a server's answer whose status is not 200.
Error refusal(const std::string& target, const HttpClient::Answer& answer) {
  std::string message = "status " + std::to_string(answer.status);
  json::error_code code;
  const json::value body = json::parse(answer.body, code);
  if (!code && body.is_object())
    if (const auto* text = body.as_object().if_contains("error"); text != nullptr && text->is_string())
      message = std::string(text->as_string()) + " (" + message + ")";
  if (answer.status == 401) message += "; give a token with --token-file or MILLRACE_TOKEN";
  ErrorCode kind = ErrorCode::kInvalidInput;
  if (answer.status == 404) kind = ErrorCode::kNotFound;
  if (answer.status == 429) kind = ErrorCode::kResourceExhausted;
  if (answer.status == 501) kind = ErrorCode::kUnsupported;
  if (answer.status == 500 || answer.status == 503) kind = ErrorCode::kUnavailable;
  if (answer.status == 504) kind = ErrorCode::kDeadlineExceeded;
  return Error(kind, target + ": " + message);
}

Result<json::value> document(const std::string& target, Result<HttpClient::Answer> answer) {
  if (!answer) return answer.error();
  if (answer->status != 200) return refusal(target, *answer);
  json::error_code code;
  json::value body = json::parse(answer->body, code);
  if (code) return unexpected(target);
  return body;
}

constexpr std::string_view kOnlyReadyText = R"({"ready":true})";
const std::span<const std::byte> kOnlyReady = std::as_bytes(std::span(kOnlyReadyText));

Result<std::string> only_model(HttpClient& client) {
  const std::string target = "/v2/repository/index";
  MILLRACE_ASSIGN(const json::value index, document(target, client.post(target, kOnlyReady)));
  std::vector<std::string> names;
  if (!index.is_array()) return unexpected(target);
  for (const json::value& entry : index.as_array()) {
    const auto* object = entry.if_object();
    const auto* name = object == nullptr ? nullptr : object->if_contains("name");
    if (name == nullptr || !name->is_string()) return unexpected(target);
    names.emplace_back(name->as_string());
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.size() == 1) return names.front();
  if (names.empty()) return Error(ErrorCode::kNotFound, "the server serves no model");
  std::string all;
  for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
  return Error(ErrorCode::kInvalidInput, "the server serves " + all + "; say which with --model");
}

InputDescription tensor_of(const json::value& value) {
  const json::object& object = value.as_object();
  InputDescription out;
  out.name = std::string(object.at("name").as_string());
  out.datatype = std::string(object.at("datatype").as_string());
  for (const json::value& dim : object.at("shape").as_array())
    out.shape.push_back(dim.to_number<std::int64_t>());
  return out;
}

std::vector<float> floats_of(const json::value& value) {
  std::vector<float> out;
  for (const json::value& number : value.as_array()) out.push_back(number.to_number<float>());
  return out;
}

/// Converts the server's metadata. Throws an exception of Boost.JSON if a key is missing or has the wrong type.
ModelDescription description_of(const json::value& metadata, const json::value* millrace) {
  ModelDescription out;
  const json::object& object = metadata.as_object();
  out.name = std::string(object.at("name").as_string());
  out.output = tensor_of(object.at("outputs").as_array().at(0));
  for (const json::value& input : object.at("inputs").as_array()) out.inputs.push_back(tensor_of(input));
  InputDescription& first = out.inputs.at(0);
  if (millrace == nullptr) return out;
  const json::object& extension = millrace->as_object();
  for (const json::value& label : extension.at("labels").as_array())
    out.labels.emplace_back(label.as_string());
  const json::object& preprocessing = extension.at("preprocessing").as_object();
  first.layout = std::string(preprocessing.at("layout").as_string());
  first.scale = floats_of(preprocessing.at("scale"));
  first.mean = floats_of(preprocessing.at("mean"));
  return out;
}

Result<ModelDescription> describe(HttpClient& client, const std::string& name) {
  const std::string target = "/v2/models/" + clients::percent_encoded(name);
  MILLRACE_ASSIGN(const json::value metadata, document(target, client.get(target)));
  const std::string extension = "/v2/millrace/models/" + clients::percent_encoded(name);
  MILLRACE_ASSIGN(const HttpClient::Answer answer, client.get(extension));
  json::error_code code;
  const json::value millrace = answer.status == 200 ? json::parse(answer.body, code) : json::value();
  if (code) return unexpected(extension);
  try {
    // Other servers of the v2 protocol do not have Millrace's own page about the model. Without that page there are no
    // labels and no preprocessing.
    return description_of(metadata, answer.status == 200 ? &millrace : nullptr);
  } catch (const std::exception&) {
    return unexpected(target);
  }
}

using Tensors = std::vector<std::vector<std::byte>>;  // one for each input, in the model's order

std::string request_header(const ModelDescription& model, const Tensors& frame,
                           std::chrono::milliseconds timeout) {
  json::array inputs;
  for (std::size_t i = 0; i < frame.size(); ++i) {
    json::array shape;
    for (const std::int64_t dim : model.inputs[i].shape) shape.emplace_back(dim);
    inputs.push_back(json::object{{"name", model.inputs[i].name},
                                  {"shape", std::move(shape)},
                                  {"datatype", model.inputs[i].datatype},
                                  {"parameters", {{"binary_data_size", frame[i].size()}}}});
  }
  return json::serialize(json::object{
      {"parameters", {{"timeout", std::chrono::microseconds(timeout).count()}}},
      {"inputs", std::move(inputs)},
      {"outputs",
       json::array{json::object{{"name", model.output.name}, {"parameters", {{"binary_data", true}}}}}}});
}

Result<std::vector<std::byte>> infer(HttpClient& client, const ModelDescription& model, const Tensors& frame,
                                     std::chrono::milliseconds timeout) {
  const std::string target = "/v2/models/" + clients::percent_encoded(model.name) + "/infer";
  const std::string header = request_header(model, frame, timeout);
  std::vector<std::byte> body(header.size());
  std::memcpy(body.data(), header.data(), header.size());
  for (const auto& tensor : frame) body.insert(body.end(), tensor.begin(), tensor.end());
  MILLRACE_ASSIGN(const HttpClient::Answer answer,
                  client.post(target, body,
                              {{"Content-Type", "application/octet-stream"},
                               {"Inference-Header-Content-Length", std::to_string(header.size())}}));
  if (answer.status != 200) return refusal(target, answer);
  const std::size_t json_bytes = answer.inference_header_length.value_or(answer.body.size());
  if (json_bytes > answer.body.size()) return unexpected(target);
  const auto* begin = reinterpret_cast<const std::byte*>(answer.body.data());
  return std::vector<std::byte>(begin + json_bytes, begin + answer.body.size());
}

template <class T>
std::vector<double> values_as(const std::vector<std::byte>& bytes) {
  std::vector<double> out(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
  return out;
}

Result<std::vector<double>> scores_of(const InputDescription& output, const std::vector<std::byte>& bytes) {
  std::vector<double> scores;
  if (output.datatype == "FP32")
    scores = values_as<float>(bytes);
  else if (output.datatype == "FP64")
    scores = values_as<double>(bytes);
  else if (output.datatype == "UINT8")
    scores = values_as<std::uint8_t>(bytes);
  else if (output.datatype == "INT8")
    scores = values_as<std::int8_t>(bytes);
  else if (output.datatype == "INT32")
    scores = values_as<std::int32_t>(bytes);
  else if (output.datatype == "INT64")
    scores = values_as<std::int64_t>(bytes);
  else
    return Error(ErrorCode::kUnsupported,
                 "output '" + output.name + "' of type " + output.datatype + " is not supported");
  if (scores.size() != output.elements())
    return Error(ErrorCode::kInvalidInput, "output '" + output.name + "' came with " +
                                               std::to_string(bytes.size()) + " bytes, not the " +
                                               std::to_string(output.elements()) + " elements announced");
  return scores;
}

std::string shortest(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value)).ptr;
  return std::string(buffer, end);
}

void print_text(std::ostream& out, const ModelDescription& model, const FrameResult& result,
                std::uint32_t top) {
  out << result.source << '[' << result.frame << ']';
  const char* between = ": ";
  for (const std::size_t index : clients::largest(result.scores, top)) {
    out << std::exchange(between, ", ")
        << (index < model.labels.size() ? model.labels[index] : "#" + std::to_string(index)) << " ("
        << shortest(result.scores[index]) << ')';
  }
  out << '\n';
}

json::object as_json(const ModelDescription& model, const FrameResult& result, std::uint32_t top) {
  json::array classes;
  for (const std::size_t index : clients::largest(result.scores, top)) {
    json::object one{{"index", index}};
    if (index < model.labels.size()) one["label"] = model.labels[index];
    const double score = result.scores[index];
    if (std::isfinite(score)) one["score"] = score;  // JSON cannot express infinity or NaN
    classes.push_back(std::move(one));
  }
  return {{"input", result.source}, {"frame", result.frame}, {"top", std::move(classes)}};
}

Status write_output(const std::filesystem::path& path, const ModelDescription& model,
                    const std::vector<FrameResult>& results) {
  NpyArray array;
  array.descr = clients::descr_of(model.output.datatype);
  array.shape.push_back(results.size());
  for (std::size_t axis = 1; axis < model.output.shape.size(); ++axis)
    array.shape.push_back(static_cast<std::uint64_t>(model.output.shape[axis]));
  for (const auto& result : results)
    array.data.insert(array.data.end(), result.output.begin(), result.output.end());
  return write_npy(path, array);
}

}  // namespace

Status run(const InferCommand& command, std::ostream& out) {
  if (!command.output.empty()) MILLRACE_TRY(check_file_place(command.output));
  MILLRACE_ASSIGN(const clients::Url url, clients::parse_url(command.url));
  // Give the server a shorter deadline than the client's, so that the server reports the timeout itself.
  MILLRACE_ASSIGN(const clients::Access access, access_of(command.access));
  MILLRACE_ASSIGN(const auto client,
                  HttpClient::connect(url, command.timeout + std::chrono::seconds(1), access));
  std::string name = command.model;
  if (name.empty()) {
    MILLRACE_ASSIGN(name, only_model(*client));
  }
  MILLRACE_ASSIGN(const ModelDescription model, describe(*client, name));

  std::vector<FrameResult> results;
  // If the model has one input, each file is read on its own, and any number of files may be given. If it has several
  // inputs, all files together make the frames.
  std::vector<std::vector<std::string>> groups;
  for (const auto& file : command.inputs) {
    if (groups.empty() || model.inputs.size() == 1) groups.emplace_back();
    groups.back().push_back(file);
  }
  for (const auto& files : groups) {
    MILLRACE_ASSIGN(const clients::ModelSamples samples, clients::read_model_samples(files, model.inputs));
    if (!samples.note.empty() && !command.common.quiet) std::cerr << files[0] << ": " << samples.note << '\n';
    for (std::size_t i = 0; i < samples.frames.size(); ++i) {
      FrameResult result{files[0], i, {}, {}};
      MILLRACE_ASSIGN(result.output, infer(*client, model, samples.frames[i], command.timeout));
      MILLRACE_ASSIGN(result.scores, scores_of(model.output, result.output));
      if (!command.common.json) {
        print_text(out, model, result, command.top);
        // If an answer cannot be written, do not send further frames. The caller sees that `out` failed.
        if (!out.flush()) return {};
      }
      results.push_back(std::move(result));
    }
  }
  if (!command.output.empty()) MILLRACE_TRY(write_output(command.output, model, results));
  if (command.common.json) {
    json::array frames;
    for (const auto& result : results) frames.push_back(as_json(model, result, command.top));
    out << json::serialize(json::object{{"schema", 1}, {"model", model.name}, {"frames", std::move(frames)}})
        << '\n';
  }
  return {};
}

}  // namespace millrace::cli
