#include "runtime/card/sensors.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

namespace millrace::runtime::card {
namespace {

namespace json = boost::json;

json::value parsed(std::string_view text) {
  json::error_code code;
  json::value out = json::parse(json::string_view(text.data(), text.size()), code);
  return code ? json::value() : out;
}

const json::value* find(const json::value& in, const char* key) {
  const auto* object = in.if_object();
  return object == nullptr ? nullptr : object->if_contains(key);
}

/// Returns the text of a member, or an empty text if it is absent. XRT writes every value as a text.
std::string_view text_of(const json::value& in, const char* key) {
  const json::value* member = find(in, key);
  const auto* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string_view() : std::string_view(text->data(), text->size());
}

std::optional<double> number_of(std::string_view text) {
  double out = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(out) ? std::optional(out) : std::nullopt;
}

/// Reads a number such as "0x40000000". Returns 0 for any other text.
std::uint64_t hexadecimal(std::string_view text) {
  std::uint64_t value = 0;
  if (!text.starts_with("0x")) return 0;
  const auto [end, code] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  return code == std::errc() && end == text.data() + text.size() ? value : 0;
}

}  // namespace

std::optional<double> power_watts_of(std::string_view electrical) {
  return number_of(text_of(parsed(electrical), "power_consumption_watts"));
}

std::optional<double> hottest_celsius_of(std::string_view thermal) {
  const json::value document = parsed(thermal);
  const json::value* sensors = find(document, "thermals");
  std::optional<double> hottest;
  if (sensors == nullptr || !sensors->is_array()) return hottest;
  for (const json::value& sensor : sensors->as_array()) {
    const auto celsius = number_of(text_of(sensor, "temp_C"));
    if (celsius && text_of(sensor, "is_present") == "true")
      hottest = std::max(hottest.value_or(*celsius), *celsius);
  }
  return hottest;
}

std::optional<std::uint64_t> host_memory_bytes_of(std::string_view memory) {
  const json::value document = parsed(memory);
  const json::value* node = find(document, "board");
  if (node != nullptr) node = find(*node, "memory");
  if (node != nullptr) node = find(*node, "memories");
  std::optional<std::uint64_t> bytes;
  if (node == nullptr || !node->is_array()) return bytes;
  for (const json::value& bank : node->as_array()) {
    if (!text_of(bank, "tag").starts_with("HOST[")) continue;
    const bool enabled = text_of(bank, "enabled") == "true";
    bytes = bytes.value_or(0) + (enabled ? hexadecimal(text_of(bank, "range_bytes")) : 0);
  }
  return bytes;
}

}  // namespace millrace::runtime::card
