#include "server/config/settings.hpp"

#include <algorithm>

namespace millrace::server::config {
namespace {

struct ToText {
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::uint64_t value) const { return std::to_string(value); }
  std::string operator()(std::chrono::milliseconds time) const { return std::to_string(time.count()); }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string out = "[";
    for (const auto& value : values) out += (out.size() > 1 ? ", " : "") + value;
    return out + "]";
  }
};

}  // namespace

const Setting* find_setting(std::string_view key) {
  const auto found = std::find_if(std::begin(kSettings), std::end(kSettings),
                                  [&](const Setting& setting) { return setting.key == key; });
  return found == std::end(kSettings) ? nullptr : found;
}

std::string environment_name(std::string_view key) {
  std::string out = "MILLRACE_";
  for (const char c : key) {
    if (c == '.' || c == '-')
      out += '_';
    else
      out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return out;
}

std::string value_text(const Setting& setting, const Settings& of) {
  return std::visit([&](const auto& kind) { return ToText()(of.*kind.at); }, setting.kind);
}

std::vector<const Setting*> differing(const Settings& a, const Settings& b) {
  std::vector<const Setting*> out;
  for (const Setting& setting : kSettings)
    if (value_text(setting, a) != value_text(setting, b)) out.push_back(&setting);
  return out;
}

}  // namespace millrace::server::config
