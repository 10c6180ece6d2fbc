#include "compiler/emit/rtl/text.hpp"

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

}  // namespace

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

std::string notice(const std::string& what, const std::string& generator) {
  return "/// " + what + "\n///\n/// Written by " + generator +
         ". Simulated with Verilator and synthesised with Yosys; never been through Vivado or on a card.\n";
}

}  // namespace millrace::compiler::emit
