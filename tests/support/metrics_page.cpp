#include "tests/support/metrics_page.hpp"

namespace millrace::tests {

std::optional<double> metric_in(std::string_view page, std::string_view name, std::string_view labels) {
  std::optional<double> sum;
  while (!page.empty()) {
    const auto end = page.find('\n');
    const std::string_view line = page.substr(0, end);
    page.remove_prefix(end == std::string_view::npos ? page.size() : end + 1);
    const bool named = line.starts_with(name) && line.size() > name.size() &&
                       (line[name.size()] == '{' || line[name.size()] == ' ');
    if (named && line.find(labels) != std::string_view::npos)
      sum = sum.value_or(0) + std::stod(std::string(line.substr(line.rfind(' ') + 1)));
  }
  return sum;
}

}  // namespace millrace::tests
