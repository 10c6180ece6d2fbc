#include "compiler/report/template.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cassert>
#include <vector>

#include "compiler/report/figures.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::report {
namespace {

namespace json = boost::json;
using Scopes = std::vector<const json::value*>;  // the innermost last

const json::value* member(const json::value& value, std::string_view name) {
  const auto* object = value.if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

const json::value* find(const Scopes& scopes, std::string_view path) {
  if (path == ".") return scopes.back();
  const std::size_t dot = std::min(path.find('.'), path.size());
  for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
    if (const auto* value = member(**scope, path.substr(0, dot)))
      return dot == path.size() ? value : member(*value, path.substr(dot + 1));
  return nullptr;
}

bool is_there(const json::value* value) {
  if (value == nullptr || value->is_null()) return false;
  if (value->is_bool()) return value->get_bool();
  if (value->is_number()) return value->to_number<double>() != 0;
  if (value->is_string()) return !value->get_string().empty();
  return !value->is_array() || !value->get_array().empty();
}

std::string joules(double micro) {
  return micro >= 1e6   ? fixed(micro / 1e6, 2) + " J"
         : micro >= 1e3 ? fixed(micro / 1e3, 2) + " mJ"
                        : fixed(micro, 2) + " µJ";
}

std::string formatted(const json::value* value, std::string_view format) {
  if (value == nullptr || !value->is_number()) return "-";
  const auto number = value->to_number<double>();
  if (format == "commas") return with_commas(number);
  if (format == "short") return short_number(number);
  if (format == "percent") return percent(number);
  if (format == "bytes") return bytes(number);
  if (format == "us") return duration(number * 1e-6, "µ");
  if (format == "joules") return joules(number);
  assert(format == "fixed");
  return fixed(number, 1);
}

std::string shown(const Scopes& scopes, std::string_view tag) {
  const std::size_t bar = tag.find('|');
  const json::value* value = find(scopes, tag.substr(0, bar));
  if (bar != std::string_view::npos) return formatted(value, tag.substr(bar + 1));
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

/// Fills from `at` to the end of the section that `at` is in, and returns the position behind that end.
std::size_t fill(std::string_view text, std::size_t at, Scopes& scopes, bool visible, std::string& out);

/// Fills the section that `tag` opened. Its text starts at `at`.
std::size_t fill_section(std::string_view text, std::size_t at, std::string_view tag, Scopes& scopes,
                         bool visible, std::string& out) {
  const json::value* value = find(scopes, tag.substr(1));
  const bool there = is_there(value);
  if (!visible || there != (tag.front() == '#')) return fill(text, at, scopes, false, out);
  if (!there) return fill(text, at, scopes, true, out);
  std::size_t end = at;
  const auto fill_with = [&](const json::value& element) {
    scopes.push_back(&element);
    end = fill(text, at, scopes, true, out);
    scopes.pop_back();
  };
  if (!value->is_array()) fill_with(*value);
  if (value->is_array())
    for (const auto& element : value->get_array()) fill_with(element);
  return end;
}

std::size_t fill(std::string_view text, std::size_t at, Scopes& scopes, bool visible, std::string& out) {
  while (true) {
    const std::size_t open = std::min(text.find("{{", at), text.size());
    if (visible) out += text.substr(at, open - at);
    if (open == text.size()) return open;
    const std::size_t close = text.find("}}", open);
    assert(close != std::string_view::npos);
    const auto tag = text.substr(open + 2, close - open - 2);
    at = close + 2;
    if (tag.front() == '/') return at;
    if (tag.front() == '#' || tag.front() == '^')
      at = fill_section(text, at, tag, scopes, visible, out);
    else if (visible)
      out += escaped(shown(scopes, tag));
  }
}

/// `text` with U+FFFD for each byte that belongs to no character.
std::string as_utf8(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 0;
    for (std::size_t n = 1; n <= 4 && i + n <= text.size() && length == 0; ++n)
      if (is_utf8(text.substr(i, n))) length = n;
    out += length == 0 ? "\xef\xbf\xbd" : text.substr(i, length);
    i += std::max<std::size_t>(1, length);
  }
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(is_utf8(text) ? std::string(text) : as_utf8(text))) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += c;
  }
  return out;
}

std::string fill(std::string_view text, const json::value& values) {
  Scopes scopes{&values};
  std::string out;
  fill(text, 0, scopes, true, out);
  return out;
}

}  // namespace millrace::compiler::report
