#include "tools/calibrate/measurements.hpp"

#include <array>
#include <charconv>
#include <sstream>

namespace millrace::tools::calibrate {
namespace {

using compiler::generators::Cost;
using compiler::generators::Parameters;

constexpr const char* kHeader = "module,parameters,sources,lut,lutram,ff,dsp,ramb18,ramb36,uram";
constexpr std::size_t kFields = 10;

template <class Number>
bool read(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string print_parameters(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters) {
    if (!text.empty()) text += ' ';
    text += name + "=" + std::to_string(value);
  }
  return text;
}

std::string print_measurements(const Measurements& measurements) {
  std::string text = "# " + measurements.tool + "\n" + kHeader + "\n";
  for (const Measurement& m : measurements.rows) {
    text += m.module + "," + print_parameters(m.parameters) + "," + m.sources;
    for (const std::uint64_t count :
         {m.cost.lut, m.cost.lutram, m.cost.ff, m.cost.dsp, m.cost.ramb18, m.cost.ramb36, m.cost.uram}) {
      text += "," + std::to_string(count);
    }
    text += "\n";
  }
  return text;
}

Result<Measurements> parse_measurements(const std::string& text, const std::string& name) {
  Measurements measurements;
  std::istringstream lines(text);
  std::string line;
  std::size_t number = 1;
  const auto wrong = [&](const std::string& what) {
    return Error(ErrorCode::kInvalidInput, name + ":" + std::to_string(number) + ": " + what);
  };
  if (!std::getline(lines, line) || !line.starts_with("# ")) return wrong("'# <tool>' is missing");
  measurements.tool = line.substr(2);
  ++number;
  if (!std::getline(lines, line) || line != kHeader) {
    return wrong("the second line is not '" + std::string(kHeader) + "'");
  }
  while (std::getline(lines, line)) {
    ++number;
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != kFields) {
      return wrong("has " + std::to_string(fields.size()) + " fields instead of " + std::to_string(kFields));
    }
    Measurement m;
    m.module = fields[0];
    m.sources = fields[2];
    for (const std::string& pair : split(fields[1], ' ')) {
      const std::size_t equals = pair.find('=');
      std::int64_t value = 0;
      if (equals == std::string::npos || !read(std::string_view(pair).substr(equals + 1), value)) {
        return wrong("'" + pair + "' is no NAME=value");
      }
      m.parameters.emplace_back(pair.substr(0, equals), value);
    }
    const std::array<std::uint64_t*, 7> counts = {&m.cost.lut,    &m.cost.lutram, &m.cost.ff,  &m.cost.dsp,
                                                  &m.cost.ramb18, &m.cost.ramb36, &m.cost.uram};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (!read(fields[i + 3], *counts[i])) return wrong("'" + fields[i + 3] + "' is no count");
    }
    measurements.rows.push_back(std::move(m));
  }
  return measurements;
}

}  // namespace millrace::tools::calibrate
