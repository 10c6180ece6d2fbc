#include "compiler/report/markup.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "runtime/base/text.hpp"

namespace millrace::compiler::report {
namespace {

/// Each byte of what is no character stands as U+FFFD.
std::string as_utf8(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = 0;
    for (std::size_t n = 1; n <= 4 && i + n <= text.size() && length == 0; ++n)
      if (is_utf8(text.substr(i, n))) length = n;
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++i;
    } else {
      out += text.substr(i, length);
      i += length;
    }
  }
  return out;
}

/// A line end behind one of these would be a space on the page.
bool is_inline(std::string_view tag) {
  return tag == "bdi" || tag == "b" || tag == "span" || tag == "small" || tag == "a" || tag == "text";
}

}  // namespace

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

void Markup::begin(const char* tag, const Attributes& attributes) {
  out_ += '<';
  out_ += tag;
  for (const auto& attribute : attributes) {
    out_ += ' ';
    out_ += attribute.name;
    out_ += "=\"" + escaped(attribute.value) + "\"";
  }
}

Markup& Markup::open(const char* tag, const Attributes& attributes) {
  begin(tag, attributes);
  out_ += '>';
  open_.push_back(tag);
  return *this;
}

Markup& Markup::close() {
  assert(!open_.empty());
  out_ += "</";
  out_ += open_.back();
  out_ += is_inline(open_.back()) ? ">" : ">\n";
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  out_ += escaped(text);
  return *this;
}

Markup& Markup::put(const char* tag, const Attributes& attributes, std::string_view words) {
  return open(tag, attributes).text(words).close();
}

Markup& Markup::leaf(const char* tag, const Attributes& attributes) {
  begin(tag, attributes);
  out_ += "/>";
  return *this;
}

Markup& Markup::own(std::string_view markup) {
  out_ += markup;
  return *this;
}

std::string Markup::take() {
  while (!open_.empty()) close();
  return std::exchange(out_, {});
}

}  // namespace millrace::compiler::report
