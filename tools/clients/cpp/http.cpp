// The client over HTTP: the Open Inference Protocol with binary tensors.
#include <algorithm>
#include <boost/json.hpp>
#include <cstring>
#include <utility>

#include "tools/clients/http_client.hpp"
#include "transport.hpp"

namespace millrace::client {
namespace {

namespace json = boost::json;
using clients::HttpClient;

Code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
      return Code::kUnavailable;
    case ErrorCode::kDeadlineExceeded:
      return Code::kDeadline;
    case ErrorCode::kInvalidInput:
    case ErrorCode::kNotFound:  // the CA file does not exist
      return Code::kInvalid;
    case ErrorCode::kEnvironment:
      return Code::kUntrusted;
    default:
      return Code::kInternal;
  }
}

Status status_of(const Error& error) {
  return {code_of(error.code()), error.message()};
}

/// Converts the answer's status and error body to a Status.
Status status_of(const std::string& target, const HttpClient::Answer& answer) {
  std::string message = target + ": status " + std::to_string(answer.status);
  json::error_code failed;
  const json::value body = json::parse(answer.body, failed);
  if (!failed && body.is_object())
    if (const auto* text = body.as_object().if_contains("error"); text != nullptr && text->is_string())
      message += ": " + std::string(text->as_string());
  switch (answer.status) {
    case 200:
      return {};
    case 401:
    case 403:
      return {Code::kDenied, message};
    case 404:
      return {Code::kNotFound, message};
    case 429:
      return {Code::kBusy, message};
    case 503:
      return {Code::kUnavailable, message};
    case 504:
      return {Code::kDeadline, message};
    case 500:
      return {Code::kInternal, message};
    default:
      return {answer.status >= 400 && answer.status < 500 ? Code::kInvalid : Code::kProtocol, message};
  }
}

std::vector<TensorInfo> tensors_of(const json::value& list) {
  std::vector<TensorInfo> out;
  for (const json::value& entry : list.as_array()) {
    const json::object& tensor = entry.as_object();
    TensorInfo info{
        std::string(tensor.at("name").as_string()), std::string(tensor.at("datatype").as_string()), {}};
    for (const json::value& n : tensor.at("shape").as_array())
      info.shape.push_back(n.to_number<std::int64_t>());
    out.push_back(std::move(info));
  }
  return out;
}

std::string path_of(const std::string& model, const std::string& version) {
  return "/v2/models/" + clients::percent_encoded(model) +
         (version.empty() ? "" : "/versions/" + clients::percent_encoded(version));
}

struct HttpModel {
  std::string name, version;  // as the caller named them
  ModelInfo info;
  json::array inputs, outputs;  // tensors of the request, without their parameters
};

class HttpTransport final : public Client {
 public:
  HttpTransport(std::unique_ptr<HttpClient> http, const Options& options)
      : http_(std::move(http)), options_(options) {}

  Status ready() override {
    http_->set_timeout(options_.timeout);
    const auto answer = http_->get("/v2/health/ready");
    if (!answer) return status_of(answer.error());
    return answer->status == 200 ? Status{}
                                 : Status{Code::kUnavailable, "the server is not ready: status " +
                                                                  std::to_string(answer->status)};
  }

  Status model(const std::string& name, const std::string& version, ModelInfo& out) override {
    http_->set_timeout(options_.timeout);
    const HttpModel* found = nullptr;
    if (Status s = find(name, version, found); !s.ok()) return s;
    out = found->info;
    return {};
  }

  Status infer(const std::string& name, const std::string& version, std::span<const Input> inputs,
               std::chrono::microseconds timeout, std::vector<std::vector<std::byte>>& outputs) override {
    http_->set_timeout(
        std::max(std::chrono::ceil<std::chrono::milliseconds>(timeout), std::chrono::milliseconds(1)));
    const HttpModel* found = nullptr;
    if (Status s = find(name, version, found); !s.ok()) return s;
    const HttpModel& m = *found;
    if (Status s = compose(m, inputs, timeout); !s.ok()) return s;
    const std::string target = path_of(name, version) + "/infer";
    const auto answer = http_->post(target, body_,
                                    {{"Content-Type", "application/octet-stream"},
                                     {"Inference-Header-Content-Length", std::to_string(header_bytes_)}});
    if (!answer) return status_of(answer.error());
    if (answer->status != 200) {
      // The server may now serve another version, so ask for the model again next time.
      std::erase_if(models_, [&](const auto& known) { return known.get() == found; });
      return status_of(target, *answer);
    }
    return scatter(m, *answer, outputs);
  }

 private:
  Status find(const std::string& name, const std::string& version, const HttpModel*& out) {
    const auto known = std::find_if(models_.begin(), models_.end(),
                                    [&](const auto& m) { return m->name == name && m->version == version; });
    if (known != models_.end()) {
      out = known->get();
      return {};
    }
    if (name.empty()) return {Code::kInvalid, "a model name is needed"};
    const std::string target = path_of(name, version);
    const auto answer = http_->get(target);
    if (!answer) return status_of(answer.error());
    if (answer->status != 200) return status_of(target, *answer);
    auto m = std::make_unique<HttpModel>();
    try {
      const json::value metadata = json::parse(answer->body);
      m->info.name = std::string(metadata.at("name").as_string());
      m->info.version = version;
      if (const auto* versions = metadata.as_object().if_contains("versions");
          version.empty() && versions != nullptr && !versions->as_array().empty())
        m->info.version = std::string(versions->as_array().back().as_string());
      m->info.inputs = tensors_of(metadata.at("inputs"));
      m->info.outputs = tensors_of(metadata.at("outputs"));
    } catch (const std::exception&) {
      return {Code::kProtocol, target + ": the answer is not a model's metadata"};
    }
    m->name = name;
    m->version = version;
    for (const TensorInfo& t : m->info.inputs)
      m->inputs.push_back(json::object{{"name", t.name},
                                       {"datatype", t.datatype},
                                       {"shape", json::value_from(t.shape)},
                                       {"parameters", {{"binary_data_size", t.bytes()}}}});
    for (const TensorInfo& t : m->info.outputs)
      m->outputs.push_back(json::object{{"name", t.name}, {"parameters", {{"binary_data", true}}}});
    out = m.get();
    models_.push_back(std::move(m));
    return {};
  }

  Status compose(const HttpModel& m, std::span<const Input> inputs, std::chrono::microseconds timeout) {
    if (inputs.size() != m.info.inputs.size())
      return {Code::kInvalid, "model '" + m.name + "' takes " + std::to_string(m.info.inputs.size()) +
                                  " inputs, not " + std::to_string(inputs.size())};
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].size() != m.info.inputs[i].bytes())
        return {Code::kInvalid, "input '" + m.info.inputs[i].name + "' has " +
                                    std::to_string(inputs[i].size()) + " bytes; the model takes " +
                                    std::to_string(m.info.inputs[i].bytes())};
    const std::string header = json::serialize(json::object{
        {"parameters", {{"timeout", timeout.count()}}}, {"inputs", m.inputs}, {"outputs", m.outputs}});
    header_bytes_ = header.size();
    body_.resize(header.size());
    std::memcpy(body_.data(), header.data(), header.size());
    for (const Input& in : inputs) body_.insert(body_.end(), in.begin(), in.end());
    return {};
  }

  static Status scatter(const HttpModel& m, const HttpClient::Answer& answer,
                        std::vector<std::vector<std::byte>>& outputs) {
    const Status bad{Code::kProtocol, "the answer of model '" + m.name + "' lacks the model's outputs"};
    if (!answer.inference_header_length || *answer.inference_header_length > answer.body.size()) return bad;
    const auto* at = reinterpret_cast<const std::byte*>(answer.body.data()) + *answer.inference_header_length;
    std::size_t left = answer.body.size() - *answer.inference_header_length;
    outputs.resize(m.info.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::uint64_t bytes = m.info.outputs[i].bytes();
      if (bytes > left) return bad;
      outputs[i].assign(at, at + bytes);
      at += bytes;
      left -= bytes;
    }
    return left == 0 ? Status{} : bad;
  }

  const std::unique_ptr<HttpClient> http_;
  const Options options_;
  std::vector<std::unique_ptr<HttpModel>> models_;
  std::vector<std::byte> body_;  // body of the current request; keeps its memory
  std::size_t header_bytes_ = 0;
};

}  // namespace

Status connect_http(const std::string& text, const Options& options, std::unique_ptr<Client>& out) {
  const auto url = clients::parse_url(text, clients::Udp::kTakenByCaller);
  if (!url) return {Code::kInvalid, url.error().message()};
  auto http = HttpClient::connect(*url, options.timeout, {options.ca_file, options.verify, options.token});
  if (!http) return status_of(http.error());
  out = std::make_unique<HttpTransport>(std::move(http).value(), options);
  return {};
}

}  // namespace millrace::client
