#include "server/http/routes/documents.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace millrace::server::http {
namespace {

namespace json = boost::json;
using runtime::plan::TensorSignature;

template <class Values>
json::array array_of(const Values& values) {
  json::array out;
  for (const auto& value : values) out.emplace_back(value);
  return out;
}

json::array tensors(const std::vector<TensorSignature>& signatures) {
  json::array out;
  for (const auto& signature : signatures)
    out.push_back(json::object{
        {"name", signature.name}, {"datatype", signature.datatype}, {"shape", array_of(signature.shape)}});
  return out;
}

/// The inputs, each with the integers that may be sent instead: q stands for (q - zero_point) * scale.
json::array inputs_of(const models::Model& model) {
  json::array out = tensors(model.info().inputs);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (const auto& integers = model.quantised()[i])
      out[i].as_object()["parameters"] = json::object{{"quantized_datatype", integers->datatype},
                                                      {"quantized_scale", integers->scale},
                                                      {"quantized_zero_point", integers->zero_point}};
  return out;
}

/// Triton's model configuration says TYPE_FP32, and TYPE_STRING for BYTES.
json::array configured_tensors(const std::vector<TensorSignature>& signatures) {
  json::array out;
  for (const auto& signature : signatures)
    out.push_back(json::object{{"name", signature.name},
                               {"data_type", "TYPE_" + signature.datatype},
                               {"dims", array_of(signature.shape)}});
  return out;
}

json::object duration(const models::Statistics::Duration& value) {
  return {{"count", value.count}, {"ns", value.ns}};
}

json::object statistics(const models::Model& model) {
  const auto now = model.statistics().snapshot();
  const models::Statistics::Duration none;
  json::array batches;
  if (now.inferences > 0)
    batches.push_back(json::object{{"batch_size", 1},
                                   {"compute_input", duration(now.input)},
                                   {"compute_infer", duration(now.compute)},
                                   {"compute_output", duration(now.output)}});
  return {{"name", model.name()},
          {"version", model.version()},
          {"last_inference", now.last_inference_unix_ms},
          {"inference_count", now.inferences},
          {"execution_count", now.inferences},
          {"inference_stats", json::object{{"success", duration(now.success)},
                                           {"fail", duration(now.fail)},
                                           {"queue", duration(now.queue)},
                                           {"compute_input", duration(now.input)},
                                           {"compute_infer", duration(now.compute)},
                                           {"compute_output", duration(now.output)},
                                           {"cache_hit", duration(none)},
                                           {"cache_miss", duration(none)}}},
          {"batch_stats", std::move(batches)},
          {"memory_usage", json::array()},
          {"response_stats", json::object()}};
}

}  // namespace

std::string server_metadata(const std::string& server_version, bool repository) {
  json::array extensions{"classification", "model_configuration", "binary_tensor_data", "statistics"};
  if (repository) extensions.emplace_back("model_repository");
  return json::serialize(
      json::object{{"name", "millrace"}, {"version", server_version}, {"extensions", std::move(extensions)}});
}

std::string model_metadata(const models::Model& model, const models::Snapshot::Versions& versions) {
  json::array names;
  for (const auto& [version, served] : versions) names.emplace_back(version);
  return json::serialize(json::object{{"name", model.name()},
                                      {"versions", std::move(names)},
                                      {"platform", "millrace"},
                                      {"inputs", inputs_of(model)},
                                      {"outputs", tensors(model.info().outputs)}});
}

std::string model_config(const models::Model& model) {
  return json::serialize(json::object{{"name", model.name()},
                                      {"platform", "millrace"},
                                      {"backend", "millrace"},
                                      {"max_batch_size", 0},
                                      {"input", configured_tensors(model.info().inputs)},
                                      {"output", configured_tensors(model.info().outputs)}});
}

std::string model_statistics(const std::vector<std::shared_ptr<models::Model>>& models) {
  json::array all;
  for (const auto& model : models) all.push_back(statistics(*model));
  return json::serialize(json::object{{"model_stats", std::move(all)}});
}

std::string model_description(const models::Model& model) {
  const auto& info = model.info();
  return json::serialize(
      json::object{{"name", model.name()},
                   {"version", model.version()},
                   {"digest", model.deployment().digest},
                   {"description", info.description},
                   {"inputs", inputs_of(model)},
                   {"outputs", tensors(info.outputs)},
                   {"labels", array_of(info.labels)},
                   {"preprocessing", json::object{{"layout", info.preprocessing.layout},
                                                  {"scale", array_of(info.preprocessing.scale)},
                                                  {"mean", array_of(info.preprocessing.mean)}}}});
}

}  // namespace millrace::server::http
