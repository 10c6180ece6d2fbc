#include "compiler/report/columns.hpp"

#include <algorithm>

namespace millrace::compiler::report {

std::string left(const std::string& text, std::size_t width) {
  if (text.size() > width) return text.substr(0, width - 2) + "..";
  return text + std::string(width - text.size(), ' ');
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string wrapped(const std::string& text, const std::string& first, const std::string& indent) {
  std::string out, line = first;
  std::size_t at = 0;
  bool empty = true;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!empty && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line = indent;
      empty = true;
    }
    line += (empty ? "" : " ") + word;
    empty = false;
    at = end + 1;
  }
  return out + line + "\n";
}

}  // namespace millrace::compiler::report
