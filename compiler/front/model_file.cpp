#include "compiler/front/model_file.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::compiler {
namespace {

using runtime::plan::ModelInfo;
namespace yaml = runtime::plan::yaml;

Result<std::vector<std::string>> read_labels(const yaml::Mapping& map, const std::filesystem::path& folder) {
  const bool inside = map.find("labels") != nullptr, beside = map.find("labels_file") != nullptr;
  if (inside && beside)
    return map.error("labels_file",
                     "labels are given by 'labels_file' and also by 'labels'; keep one of the two keys");
  if (!beside) return map.texts("labels");
  MILLRACE_ASSIGN(const std::string name, map.text("labels_file"));
  const auto text = read_text_file(folder / name, 1U << 20U);
  if (!text.ok()) return map.error("labels_file", text.error().message());
  std::vector<std::string> labels;
  for (std::size_t start = 0; start < text->size();) {
    const std::size_t end = std::min(text->find('\n', start), text->size());
    std::string label = text->substr(start, end - start);
    if (!label.empty() && label.back() == '\r') label.pop_back();
    if (!is_utf8(label))
      return map.error("labels_file", (folder / name).string() + ":" + std::to_string(labels.size() + 1) +
                                          ": is not UTF-8; save the file as UTF-8");
    labels.push_back(std::move(label));
    start = end + 1;
  }
  return labels;
}

Result<std::vector<float>> read_factors(const yaml::Mapping& map, std::string_view key,
                                        std::int64_t channels) {
  MILLRACE_ASSIGN(const std::vector<double> values, map.numbers(key));
  if (values.size() > 1 && static_cast<std::int64_t>(values.size()) != channels)
    return map.error(
        key, std::to_string(values.size()) + " values; give one value, or one per channel (" +
                 (channels == 0 ? std::string("none without a layout") : std::to_string(channels)) + ")");
  std::vector<float> floats;
  for (const double value : values) {
    floats.push_back(static_cast<float>(value));
    if (!std::isfinite(floats.back())) return map.error(key, "does not fit float32");
  }
  return floats;
}

std::filesystem::path file_beside(const std::filesystem::path& onnx) {
  return onnx.parent_path() / "millrace.yaml";
}

/// Returns the root of the YAML file, or an empty optional if the file does not exist.
Result<std::optional<yaml::Node>> load_file(const std::filesystem::path& path) {
  auto root = yaml::load(path);
  if (!root.ok() && root.error().code() == ErrorCode::kNotFound) return std::optional<yaml::Node>();
  if (!root.ok()) return root.error();
  return std::optional<yaml::Node>(std::move(*root));
}

Result<yaml::Mapping> top_of(const yaml::Node& root, const std::filesystem::path& path) {
  MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(root, path.string(), "model file",
                                                    {"schema", "description", "labels", "labels_file",
                                                     "layout", "scale", "mean", "compile"}));
  MILLRACE_ASSIGN(const std::uint64_t schema, map.integer("schema", 1));
  if (schema != 1)
    return map.error("schema", std::to_string(schema) +
                                   " is not a schema that this version of Millrace can read; use schema 1");
  return map;
}

Status read_choice(const yaml::Mapping& map, std::string_view key,
                   std::initializer_list<std::string_view> choices, std::string& out) {
  MILLRACE_ASSIGN(out, map.text(key, ""));
  if (out.empty() || std::find(choices.begin(), choices.end(), out) != choices.end()) return {};
  std::string known;
  for (const auto choice : choices) known += (known.empty() ? "" : ", ") + std::string(choice);
  return map.error(key, "'" + out + "' is none of " + known);
}

Status read_count(const yaml::Mapping& map, std::string_view key, std::optional<std::uint32_t>& out) {
  if (map.find(key) == nullptr) return {};
  MILLRACE_ASSIGN(const std::uint64_t value, map.integer(key));
  if (value == 0 || value > 1024) return map.error(key, std::to_string(value) + " is not from 1 to 1024");
  out = static_cast<std::uint32_t>(value);
  return {};
}

Status read_positive(const yaml::Mapping& map, std::string_view key, std::optional<double>& out) {
  if (map.find(key) == nullptr) return {};
  MILLRACE_ASSIGN(out, map.number(key));
  return *out > 0 ? Status() : map.error(key, "a number above 0 is expected");
}

}  // namespace

Result<CompileDefaults> read_compile_defaults(const std::filesystem::path& onnx) {
  const auto path = file_beside(onnx);
  MILLRACE_ASSIGN(const auto root, load_file(path));
  CompileDefaults defaults;
  if (!root) return defaults;
  MILLRACE_ASSIGN(const auto map, top_of(*root, path));
  const yaml::Node* const section = map.find("compile");
  if (section == nullptr) return defaults;
  MILLRACE_ASSIGN(const auto inner, yaml::Mapping::of(*section, path.string(), "section compile",
                                                      {"weights", "objective", "partitions", "replicas",
                                                       "target_fps", "max_latency_us"}));
  MILLRACE_TRY(read_choice(inner, "weights", {"baked-first", "auto", "baked", "loaded", "streamed"},
                           defaults.weights));
  MILLRACE_TRY(read_choice(inner, "objective", {"cards", "throughput", "latency"}, defaults.objective));
  MILLRACE_TRY(read_count(inner, "partitions", defaults.partitions));
  MILLRACE_TRY(read_count(inner, "replicas", defaults.replicas));
  MILLRACE_TRY(read_positive(inner, "target_fps", defaults.target_fps));
  MILLRACE_TRY(read_positive(inner, "max_latency_us", defaults.max_latency_us));
  return defaults;
}

Status read_model_file(const std::filesystem::path& onnx, ModelInfo& model) {
  const auto path = file_beside(onnx);
  MILLRACE_ASSIGN(const auto root, load_file(path));
  if (!root) return {};
  MILLRACE_ASSIGN(const auto map, top_of(*root, path));
  MILLRACE_ASSIGN(model.description, map.text("description", ""));
  MILLRACE_ASSIGN(model.labels, read_labels(map, path.parent_path()));
  const std::int64_t classes =
      model.outputs.empty() || model.outputs[0].shape.empty() ? 0 : model.outputs[0].shape.back();
  if (!model.labels.empty() && static_cast<std::int64_t>(model.labels.size()) != classes)
    return map.error(map.find("labels") != nullptr ? "labels" : "labels_file",
                     std::to_string(model.labels.size()) + " labels; the model's first output has " +
                         std::to_string(classes) + " classes");

  auto& p = model.preprocessing;
  MILLRACE_ASSIGN(p.layout, map.text("layout", ""));
  if (!p.layout.empty() && p.layout != "NCHW" && p.layout != "NHWC")
    return map.error("layout", "'" + p.layout + "' is neither NCHW nor NHWC");
  const std::vector<std::int64_t> shape =
      model.inputs.empty() ? std::vector<std::int64_t>() : model.inputs[0].shape;
  if (!p.layout.empty() && shape.size() != 4)
    return map.error(
        "layout", "the model's first input has " + std::to_string(shape.size()) + " axes, a picture has 4");
  const std::int64_t channels = p.layout.empty() ? 0 : p.layout == "NCHW" ? shape[1] : shape[3];
  MILLRACE_ASSIGN(p.scale, read_factors(map, "scale", channels));
  MILLRACE_ASSIGN(p.mean, read_factors(map, "mean", channels));
  return {};
}

}  // namespace millrace::compiler
