#include "compiler/emit/rtl/text.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "runtime/base/text.hpp"

namespace millrace::compiler::emit {
namespace {

constexpr std::size_t kLineLength = 120;

/// SystemVerilog's plain integers have 32 bits; OFFSET, of mr_add, is declared with 64.
std::string literal(const std::string& parameter, std::int64_t value) {
  if (parameter != "OFFSET" && value >= INT32_MIN && value <= INT32_MAX) return std::to_string(value);
  if (value == INT64_MIN) return "64'sh8000000000000000";
  return value < 0 ? "-64'sd" + std::to_string(-value) : "64'sd" + std::to_string(value);
}

constexpr std::size_t kLongestLine = 140;

/// The position of a line's comment; the line's length if it has none. Slashes in strings are no comment.
std::size_t comment_begin(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (!quoted && line[i] == '/' && line[i + 1] == '/') return i;
  }
  return line.size();
}

/// The last blank after `from` at which `line` may be broken; npos if there is none. A blank before a port's
/// connection is better than one inside it.
std::size_t break_of(std::string_view line, std::size_t from) {
  std::size_t found = std::string_view::npos, port = 0;
  bool quoted = false;
  const std::size_t comment = comment_begin(line);
  for (std::size_t i = 0; i < line.size() && (i <= kLongestLine || found == std::string_view::npos); ++i) {
    if (line[i] == '"' && i < comment) quoted = !quoted;
    if (line[i] != ' ' || quoted || i <= from) continue;
    found = i;
    if (i < comment && i + 1 < line.size() && line[i + 1] == '.') port = i;
  }
  return port > kLongestLine / 2 ? port : found;
}

void append_broken(std::string_view line, std::string& out) {
  std::string rest(line);
  const std::size_t indent = std::min(rest.find_first_not_of(' '), rest.size());
  while (rest.size() > kLongestLine && rest[indent] != '`') {
    const std::size_t comment = comment_begin(rest);
    const std::size_t text = std::min(rest.find_first_not_of("/ ", comment), rest.size());
    // A line that is all comment continues with the same slashes; a comment behind code gets new ones.
    const bool whole = comment == indent;
    const std::size_t at = break_of(rest, whole ? text : indent);
    if (at == std::string::npos) break;
    std::string next = whole ? rest.substr(0, text) : std::string(indent + 4, ' ');
    if (!whole && at > comment) next += "// ";
    if (next.size() >= at) break;
    out += rest.substr(0, at) + "\n";
    rest = next + rest.substr(at + 1);
  }
  out += rest + "\n";
}

}  // namespace

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string fill(std::string_view text, const std::map<std::string_view, std::string>& values) {
  std::string out;
  for (;;) {
    const std::size_t begin = text.find('%'), end = text.find('%', begin + 1);
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    out += values.at(text.substr(begin + 1, end - begin - 1));
    text.remove_prefix(end + 1);
  }
}

std::string range(std::uint64_t width) {
  return "[" + std::to_string(width - 1) + ":0] ";
}

std::string comment(const std::string& text) {
  return printable(text);
}

std::string parameter_list(const generators::Unit& unit) {
  std::vector<std::string> items;
  for (const auto& [name, value] : unit.instance.parameters)
    items.push_back("." + name + "(" + literal(name, value) + ")");
  for (const auto& [name, file] : unit.files) items.push_back("." + name + "(\"" + file + "\")");
  if (items.empty()) return "";
  std::string text = "#(\n   ", line;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string item = " " + items[i] + (i + 1 < items.size() ? "," : "");
    if (line.size() + item.size() > kLineLength) {
      text += line + "\n   ";
      line.clear();
    }
    line += item;
  }
  return text + line + "\n  ) ";
}

std::string clocked(const std::string& device, double clock_mhz) {
  char clock[32];
  std::snprintf(clock, sizeof clock, "%.10g", clock_mhz);
  return comment(device) + " at " + clock + " MHz";
}

std::string broken_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    append_broken(std::string_view(text).substr(at, end - at), out);
    at = end + 1;
  }
  return out;
}

std::string notice(const std::string& what, const std::string& generator) {
  return "/// " + what + "\n///\n/// Written by " + generator +
         ". Simulated with Verilator and synthesised with Yosys; never been through Vivado or on a card.\n";
}

}  // namespace millrace::compiler::emit
