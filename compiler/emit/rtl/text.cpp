#include "compiler/emit/rtl/text.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cassert>
#include <cstdio>

#include "compiler/templates/fill.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::emit {
namespace {

constexpr std::size_t kLineLength = 120;

/// Returns an integer as a SystemVerilog literal. Plain integers have 32 bits, but mr_add declares its OFFSET with 64.
std::string literal(const std::string& parameter, std::int64_t value) {
  if (parameter != "OFFSET" && value >= INT32_MIN && value <= INT32_MAX) return std::to_string(value);
  if (value == INT64_MIN) return "64'sh8000000000000000";
  return value < 0 ? "-64'sd" + std::to_string(-value) : "64'sd" + std::to_string(value);
}

constexpr std::size_t kLongestLine = 140;

/// Returns the position of a line's comment, or the line's length if it has none. Slashes inside strings begin no
/// comment.
std::size_t comment_begin(std::string_view line) {
  bool quoted = false;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '"') quoted = !quoted;
    if (!quoted && line[i] == '/' && line[i + 1] == '/') return i;
  }
  return line.size();
}

/// Returns the position of the last blank after `from` at which `line` may be broken, or npos if there is none. A blank
/// before a port's connection has precedence over a blank inside it.
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
    // A comment that continues on the next line needs slashes there. If the whole line is a comment, copy its slashes;
    // otherwise add new ones.
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

std::string shown(const boost::json::value* value, std::string_view format) {
  if (format.empty()) return templates::plain(value);
  if (format == "xml") return templates::escaped(templates::plain(value));
  const auto n = value->to_number<std::uint64_t>();
  if (format == "hex") {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
    return text;
  }
  assert(format == "range" || format == "vector");
  return format == "vector" && n == 1 ? "" : "[" + number(n - 1) + ":0] ";
}

}  // namespace

std::string fill(std::string_view text, const boost::json::value& values) {
  return templates::fill(text, values, {"%", "%", shown, true});
}

std::string joined(const std::vector<std::string>& names, const char* separator, const char* suffix) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : separator) + name + suffix;
  return text;
}

std::string concatenation(std::vector<std::string> names, const char* suffix) {
  std::reverse(names.begin(), names.end());
  return "{" + joined(names, ", ", suffix) + "}";
}

std::string bus_ports(const std::string& bus, std::span<const Signal> signals) {
  std::string text = ",\n";
  for (const Signal& s : signals)
    text += fill("%separator%  %direction% logic %width|vector%%bus%_%name%",
                 {{"separator", &s == signals.data() ? "\n" : ",\n"},
                  {"direction", s.input ? "input " : "output"},
                  {"width", s.width},
                  {"bus", bus},
                  {"name", s.name}});
  return text;
}

std::string bus_connections(const std::string& port, const std::string& name,
                            std::span<const Signal> signals) {
  std::string text;
  for (std::size_t i = 0; i < signals.size(); ++i)
    text += (i % 3 == 0 ? ",\n    ." : ", .") + port + "_" + signals[i].name + "(" + name + "_" +
            signals[i].name + ")";
  return text;
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

std::string clocked(const runtime::plan::Device& device) {
  char clock[32];
  std::snprintf(clock, sizeof clock, "%.10g", device.clock_mhz);
  return printable(device.name) + " at " + clock + " MHz";
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

}  // namespace millrace::compiler::emit
