#include "compiler/quantize/report.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "compiler/templates/fill.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::quantize {

std::string_view quantize_text(std::string_view name);  // defined by CMake from templates/

namespace {

namespace json = boost::json;

constexpr double kMostDb = 60;  // the full width of a bar on the page

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string decibels(double value) {
  if (std::isnan(value) || value == -INFINITY) return "-";
  return std::isinf(value) ? "exact" : fixed(value, 1) + " dB";
}

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value < 1e3) return std::to_string(bytes) + " B";
  return value < 1e6 ? fixed(value / 1e3, 1) + " kB" : fixed(value / 1e6, 2) + " MB";
}

std::string percent(std::size_t part, std::size_t whole) {
  if (whole == 0) return "-";
  return fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 2) + " %";
}

const char* method_name(Method method) {
  return method == Method::kMinMax ? "minmax" : method == Method::kEntropy ? "entropy" : "percentile";
}

std::string method_text(const Options& options) {
  if (options.declared)
    return "declared int" + std::to_string(options.declared->bits) + ":" +
           std::to_string(options.declared->fraction);
  const std::string name = method_name(options.method);
  if (options.method != Method::kPercentile) return name;
  std::string share = fixed(options.percent, 4);
  share.erase(share.find_last_not_of('0') + 1);
  if (share.back() == '.') share.pop_back();
  return name + " " + share;
}

std::string bits_text(const Layer& layer) {
  return layer.bits == kFloatBits ? "float" : std::to_string(layer.bits);
}

/// Returns how many bytes smaller the weights would be if no layer kept more bits than the options ask for.
std::uint64_t bytes_not_saved(const Summary& summary) {
  std::uint64_t bytes = 0;
  for (const Layer& layer : summary.quantised.layers)
    bytes += layer.weights *
             static_cast<std::uint64_t>(layer.bits - std::min(layer.bits, summary.options.weight_bits)) / 8;
  return bytes;
}

std::string accuracy_text(const Score& score) {
  return "float32 " + percent(score.float_right, score.frames) + " (" + std::to_string(score.float_right) +
         " of " + std::to_string(score.frames) + "), quantised " +
         percent(score.quantised_right, score.frames) + " (" + std::to_string(score.quantised_right) + ")";
}

json::value number_or_null(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

json::object facts(const Summary& summary) {
  const Quantised& quantised = summary.quantised;
  json::array layers;
  for (const Layer& layer : quantised.layers)
    layers.push_back(json::object{{"name", printable(layer.name)},
                                  {"type", layer.type},
                                  {"bits", layer.bits},
                                  {"weights", layer.weights},
                                  {"kept_because", layer.why},
                                  {"sqnr_db", number_or_null(layer.sqnr_db)}});
  json::object result{
      {"schema", 1},
      {"kind", "quantisation"},
      {"model", printable(summary.model)},
      {"bits", summary.options.declared ? summary.options.declared->bits : summary.options.weight_bits},
      {"method", summary.options.declared ? "declared" : method_name(summary.options.method)},
      {"percentile", nullptr},
      {"bias_correction", summary.options.correct_bias},
      {"equalised", summary.options.equalise},
      {"calibration_samples", summary.calibration_frames},
      {"float_bytes", quantised.float_bytes()},
      {"bytes", quantised.bytes()},
      {"sqnr_db", number_or_null(quantised.sqnr_db)},
      {"layers", std::move(layers)},
      {"notes", json::value_from(quantised.notes)},
      {"score", nullptr}};
  if (!summary.options.declared && summary.options.method == Method::kPercentile)
    result["percentile"] = summary.options.percent;
  if (!summary.score) return result;
  const Score& score = *summary.score;
  json::object scored{{"samples", score.frames},
                      {"same_answer", score.same},
                      {"sqnr_db", number_or_null(score.sqnr_db)},
                      {"float_right", nullptr},
                      {"quantised_right", nullptr}};
  if (score.labelled) {
    scored["float_right"] = score.float_right;
    scored["quantised_right"] = score.quantised_right;
  }
  result["score"] = std::move(scored);
  return result;
}

/// Returns the values for the tags in the page's template: texts, and lengths of bars in percent.
json::object page_values(const Summary& summary) {
  const Quantised& quantised = summary.quantised;
  json::array layers;
  for (const Layer& layer : quantised.layers) {
    const double share = std::isinf(layer.sqnr_db) && layer.sqnr_db > 0 ? 1 : layer.sqnr_db / kMostDb;
    layers.push_back(
        json::object{{"name", printable(layer.name)},
                     {"type", layer.type},
                     {"bits", bits_text(layer)},
                     {"weights", std::to_string(layer.weights)},
                     {"why", layer.why},
                     {"sqnr", decibels(layer.sqnr_db)},
                     {"width", fixed(std::clamp(std::isnan(share) ? 0 : share, 0.0, 1.0) * 100, 1)}});
  }
  json::object page{{"model", printable(summary.model)},
                    {"bits", std::to_string(summary.options.declared ? summary.options.declared->bits
                                                                     : summary.options.weight_bits)},
                    {"method", method_text(summary.options)},
                    {"calibrated", std::to_string(summary.calibration_frames)},
                    {"float_bytes", bytes_text(quantised.float_bytes())},
                    {"bytes", bytes_text(quantised.bytes())},
                    {"sqnr", decibels(quantised.sqnr_db)},
                    {"layers", std::move(layers)},
                    {"notes", json::value_from(quantised.notes)},
                    {"score", nullptr}};
  if (!summary.score) return page;
  const Score& score = *summary.score;
  json::object scored{{"samples", std::to_string(score.frames)},
                      {"same", percent(score.same, score.frames)},
                      {"labelled", score.labelled}};
  if (score.labelled) {
    scored["float"] = percent(score.float_right, score.frames);
    scored["quantised"] = percent(score.quantised_right, score.frames);
  }
  page["score"] = std::move(scored);
  return page;
}

}  // namespace

std::string text(const Summary& summary) {
  const Quantised& quantised = summary.quantised;
  std::size_t widest = 5;
  for (const Layer& layer : quantised.layers)
    widest = std::max(widest, std::min<std::size_t>(printable(layer.name).size(), 40));
  const auto column = static_cast<int>(widest);
  std::string out;
  char line[256];
  std::snprintf(line, sizeof line, "%-*s  %-13s %10s  bits       SQNR\n", column, "layer", "operator",
                "weights");
  out += line;
  for (const Layer& layer : quantised.layers) {
    const std::string name = printable(layer.name);
    std::snprintf(line, sizeof line, "%-*s  %-13.13s %10llu  %-5s %9s%s%s\n", column,
                  name.substr(0, 40).c_str(), layer.type.c_str(),
                  static_cast<unsigned long long>(layer.weights), bits_text(layer).c_str(),
                  decibels(layer.sqnr_db).c_str(), layer.why.empty() ? "" : "  kept: ", layer.why.c_str());
    out += line;
  }
  out += "\nweights     " + bytes_text(quantised.float_bytes()) + " in float32, " +
         bytes_text(quantised.bytes()) + " quantised";
  if (const std::uint64_t lost = bytes_not_saved(summary); lost > 0)
    out += "; the layers kept cost " + bytes_text(lost) + " of these";
  if (!std::isnan(quantised.sqnr_db)) out += "\noutput      SQNR " + decibels(quantised.sqnr_db);
  out += "\nsamples     ";
  out += summary.options.declared ? "none calibrated ("
                                  : std::to_string(summary.calibration_frames) + " calibrated (";
  out += method_text(summary.options) + ")";
  if (summary.score) {
    out += ", " + std::to_string(summary.score->frames) + " others measured the accuracy\n";
    if (summary.score->labelled) out += "accuracy    " + accuracy_text(*summary.score) + "\n";
    out += "agreement   " + percent(summary.score->same, summary.score->frames) +
           " of the answers are those of float32 (" + std::to_string(summary.score->same) + " of " +
           std::to_string(summary.score->frames) + ")\n";
  } else {
    out += "; no samples measured the accuracy: give --labels, --calibrate or --test-data\n";
  }
  for (const std::string& note : quantised.notes) out += "note        " + note + "\n";
  return out;
}

std::string json(const Summary& summary, const std::string& output) {
  json::object result = facts(summary);
  result["output"] = output;
  return json::serialize(result);
}

std::string html(const Summary& summary) {
  static constexpr templates::Syntax kSyntax = {"{{", "}}", [](const json::value* value, std::string_view) {
                                                  return templates::escaped(templates::plain(value));
                                                }};
  return templates::fill(quantize_text("page"), page_values(summary), kSyntax);
}

}  // namespace millrace::compiler::quantize
