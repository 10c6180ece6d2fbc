#include "compiler/templates/fill.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cassert>
#include <stdexcept>
#include <vector>

#include "runtime/base/text.hpp"

namespace millrace::compiler::templates {
namespace {

namespace json = boost::json;

const json::value* member(const json::value& value, std::string_view name) {
  const auto* object = value.if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

bool is_there(const json::value* value) {
  if (value == nullptr || value->is_null()) return false;
  if (value->is_bool()) return value->get_bool();
  if (value->is_number()) return value->to_number<double>() != 0;
  if (value->is_string()) return !value->get_string().empty();
  return !value->is_array() || !value->get_array().empty();
}

class Filler {
 public:
  Filler(std::string_view text, const json::value& values, const Syntax& syntax)
      : text_(text), syntax_(syntax), scopes_{&values} {}

  std::string run() {
    fill(0, true);
    return std::move(out_);
  }

 private:
  const json::value* find(std::string_view path) const {
    if (path == ".") return scopes_.back();
    const std::size_t dot = std::min(path.find('.'), path.size());
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto* value = member(**scope, path.substr(0, dot)))
        return dot == path.size() ? value : member(*value, path.substr(dot + 1));
    return nullptr;
  }

  /// Fills the text from `at` to the end of the section that `at` is in. Returns the position after that end.
  std::size_t fill(std::size_t at, bool visible) {
    while (true) {
      const std::size_t open = std::min(text_.find(syntax_.open, at), text_.size());
      if (visible) out_ += text_.substr(at, open - at);
      if (open == text_.size()) return open;
      const std::size_t begin = open + syntax_.open.size(), close = text_.find(syntax_.close, begin);
      assert(close != std::string_view::npos);
      const auto tag = text_.substr(begin, close - begin);
      at = close + syntax_.close.size();
      if (tag.front() == '/') return at;
      if (tag.front() == '#' || tag.front() == '^') {
        at = fill_section(at, tag, visible);
      } else if (visible) {
        const std::size_t bar = std::min(tag.find('|'), tag.size());
        const json::value* value = find(tag.substr(0, bar));
        if (value == nullptr && syntax_.strict)
          throw std::out_of_range("a template names '" + std::string(tag) + "', which has no value");
        out_ += syntax_.show(value, tag.substr(std::min(bar + 1, tag.size())));
      }
    }
  }

  /// Fills the section that `tag` opened. The section's text starts at `at`.
  std::size_t fill_section(std::size_t at, std::string_view tag, bool visible) {
    const json::value* value = find(tag.substr(1));
    const bool there = is_there(value);
    if (!visible || there != (tag.front() == '#')) return fill(at, false);
    if (!there) return fill(at, true);
    std::size_t end = at;
    const auto fill_with = [&](const json::value& element) {
      scopes_.push_back(&element);
      end = fill(at, true);
      scopes_.pop_back();
    };
    if (!value->is_array()) fill_with(*value);
    if (value->is_array())
      for (const auto& element : value->get_array()) fill_with(element);
    return end;
  }

  std::string_view text_;
  const Syntax& syntax_;
  std::vector<const json::value*> scopes_;  // the elements around the tag; the innermost is last
  std::string out_;
};

/// Returns `text` with every byte that is not part of a UTF-8 character replaced by U+FFFD.
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

std::string fill(std::string_view text, const json::value& values, const Syntax& syntax) {
  return Filler(text, values, syntax).run();
}

std::string plain(const json::value* value) {
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(is_utf8(text) ? std::string(text) : as_utf8(text))) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace millrace::compiler::templates
