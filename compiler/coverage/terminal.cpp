// Prints a coverage as a table for a terminal.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

#include "compiler/coverage/coverage.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::coverage {
namespace {

constexpr std::size_t kWidth = 110;
constexpr std::size_t kIndent = 7;  // of the lines below a row

/// Pads or cuts a text to `width` columns. A text that is cut ends in "…", which is one column.
std::string cell(const std::string& text, std::size_t width) {
  const std::string shown = printable(text);
  if (shown.size() <= width) return shown + std::string(width - shown.size(), ' ');
  std::size_t end = width - 1;
  while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0U) == 0x80U) --end;
  return shown.substr(0, end) + "…" + std::string(width - 1 - end, ' ');
}

std::string right(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string runs_on(const NodeCoverage& node) {
  switch (node.place) {
    case Place::kEmulated:
      return "emulated cards only";
    case Place::kHost:
      return "host";
    case Place::kCompileTime:
      return "done at compile time";
    case Place::kNowhere:
      return "NOWHERE";
    case Place::kUnknown:
      return "not known";
    case Place::kHardware:
      break;
  }
  std::string text;
  const Generators& g = node.generators;
  for (const auto& [has, name] : {std::pair(g.folded, "folded"), std::pair(g.unrolled, "unrolled"),
                                  std::pair(g.streamed, "streamed"), std::pair(g.plugin, "plugin")})
    if (has) text += (text.empty() ? "" : " ") + std::string(name);
  return node.partly_host ? text + ", host" : text;
}

/// Wraps a text into lines that are indented by kIndent spaces. The first line begins with `label`; the text of all
/// further lines is aligned with the text behind the label.
std::string wrapped(const std::string& label, const std::string& text) {
  std::string out, line(kIndent, ' ');
  line += label;
  std::size_t begin = 0;
  const std::string shown = printable(text);
  while (begin < shown.size()) {
    std::size_t end = shown.find(' ', begin);
    if (end == std::string::npos) end = shown.size();
    const std::string word = shown.substr(begin, end - begin);
    if (line.size() + 1 + word.size() > kWidth && line.size() > kIndent + label.size()) {
      out += line + '\n';
      line = std::string(kIndent + label.size(), ' ');
    }
    line += (line.back() == ' ' || line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line + '\n';
}

struct Row {
  const NodeCoverage* node;  // the first of the row
  std::size_t count = 0;
};

/// Nodes with the same operator that run in the same place, for the same reason, share a row unless `all` is set.
std::vector<Row> rows_of(const Coverage& coverage, bool all) {
  const auto answer = [](const NodeCoverage& n) {
    return std::tuple(n.domain, n.type, n.place, runs_on(n), n.missing, n.rewrite);
  };
  std::vector<Row> rows;
  std::map<decltype(answer(coverage.nodes.front())), std::size_t> known;  // the index of the answer's row
  for (const NodeCoverage& node : coverage.nodes) {
    const auto [at, fresh] = known.emplace(answer(node), rows.size());
    if (fresh || all) {
      at->second = rows.size();
      rows.push_back({&node, 0});
    }
    ++rows[at->second].count;
  }
  return rows;
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  char text[16];
  const double share = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  // A share below 100 % never prints as 100.0, nor one above 0 as 0.0.
  const double shown = part == whole ? 100.0 : part == 0 ? 0.0 : std::clamp(share, 0.1, 99.9);
  std::snprintf(text, sizeof text, "%.1f %%", shown);
  return text;
}

/// Returns the table that says how much of the nodes, multiplications and weights each generator and each place (such
/// as the host) computes. Its last row counts everything that runs.
std::string share_table(const Coverage& coverage) {
  Share total{"", coverage.nodes.size(), 0, 0};
  for (const NodeCoverage& node : coverage.nodes) {
    total.multiply_accumulates += node.multiply_accumulates;
    total.weights += node.weights;
  }
  std::string text = cell("share of", 22) + right("nodes", 16) + right("multiply-accumulates", 32) +
                     right("weights", 28) + "\n";
  const auto line = [&](const std::string& name, const Share& s) {
    const auto pair = [](std::uint64_t part, std::uint64_t whole, std::size_t width) {
      return right(grouped(part), width) + right(percent(part, whole), 9);
    };
    return cell(name, 22) + pair(s.nodes, total.nodes, 7) +
           pair(s.multiply_accumulates, total.multiply_accumulates, 23) + pair(s.weights, total.weights, 19) +
           "\n";
  };
  static const std::pair<const char*, const char*> kNames[] = {{"hardware", "hardware, any of them"},
                                                               {"emulated", "emulated cards only"},
                                                               {"compile_time", "done at compile time"},
                                                               {"combined", "runs somewhere"}};
  for (const Share& s : shares(coverage)) {
    std::string name = s.by;
    for (const auto& [by, shown] : kNames)
      if (s.by == by) name = shown;
    if (s.nodes > 0 || s.by == "combined") text += line(name, s);
  }
  return text + line("model", total);
}

}  // namespace

std::string terminal(const Coverage& coverage, bool all) {
  std::string text = printable(coverage.model) + ": " + std::to_string(coverage.nodes.size()) + " nodes";
  if (coverage.constants > 0) text += " and " + std::to_string(coverage.constants) + " constants";
  text += "\n";
  if (!coverage.assumed.empty())
    text +=
        "\nThe model computes in float32. "
        "The table shows what would run where after quantisation to " +
        coverage.assumed + ".\nTo quantise the model: millrace quantize MODEL --data SAMPLES -o QDQ.onnx\n";
  text += "\n" + right("nodes", 5) + "  " + cell("operator", 22) + "  " + cell("runs on", 32) + "  " +
          cell(all ? "node" : "first node", 22) + "  " + "block\n";
  for (const Row& row : rows_of(coverage, all)) {
    const NodeCoverage& node = *row.node;
    std::string line = right(std::to_string(row.count), 5) + "  " + cell(node.type, 22) + "  " +
                       cell(runs_on(node), 32) + "  " + cell(node.name, 22) + "  ";
    if (!node.blocks.empty()) line += cell(node.blocks.front(), kWidth - 89);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (all && !node.fused_with.empty()) {
      std::string others;
      for (const std::string& other : node.fused_with) others += (others.empty() ? "" : ", ") + other;
      text += wrapped("with: ", others);
    }
    if (!node.missing.empty()) text += wrapped("why: ", node.missing);
    if (!node.rewrite.empty()) text += wrapped("change: ", node.rewrite);
  }
  text += "\n" + share_table(coverage);
  for (const std::string& problem : coverage.problems) text += "\n" + printable(problem) + "\n";
  if (const std::size_t missing = coverage.missing(); missing > 0)
    text += "\nThe counts leave out the multiply-accumulates of nodes whose operator is not supported.\n";
  return text;
}

}  // namespace millrace::compiler::coverage
