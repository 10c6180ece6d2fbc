#include "runtime/card/sensors.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

namespace millrace::runtime::card {
namespace {

namespace json = boost::json;

/// XRT writes every value as a string.
std::optional<double> number_of(const json::value& value) {
  double out = 0;
  if (const auto* text = value.if_string()) {
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), out);
    if (code != std::errc() || end != text->data() + text->size()) return std::nullopt;
  } else if (value.is_number()) {
    out = value.to_number<double>();
  } else {
    return std::nullopt;
  }
  if (!std::isfinite(out)) return std::nullopt;
  return out;
}

json::value parsed(std::string_view text) {
  json::error_code code;
  json::value out = json::parse(json::string_view(text.data(), text.size()), code);
  return code ? json::value() : out;
}

const json::value* find(const json::value& in, const char* key) {
  const auto* object = in.if_object();
  return object == nullptr ? nullptr : object->if_contains(key);
}

bool is_present(const json::value& sensor) {
  const json::value* present = find(sensor, "is_present");
  return present != nullptr && (*present == "true" || *present == true);
}

}  // namespace

std::optional<double> power_watts_of(std::string_view electrical) {
  const json::value document = parsed(electrical);
  const json::value* watts = find(document, "power_consumption_watts");
  return watts == nullptr ? std::nullopt : number_of(*watts);
}

std::optional<double> hottest_celsius_of(std::string_view thermal) {
  const json::value document = parsed(thermal);
  const json::value* sensors = find(document, "thermals");
  std::optional<double> hottest;
  if (sensors == nullptr || !sensors->is_array()) return hottest;
  for (const json::value& sensor : sensors->as_array()) {
    const json::value* text = find(sensor, "temp_C");
    const auto celsius = text == nullptr || !is_present(sensor) ? std::nullopt : number_of(*text);
    if (celsius) hottest = std::max(hottest.value_or(*celsius), *celsius);
  }
  return hottest;
}

}  // namespace millrace::runtime::card
