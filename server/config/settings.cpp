#include "server/config/settings.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <filesystem>
#include <iterator>

namespace millrace::server::config {
namespace {

std::string absolute(const std::string& path) {
  std::error_code code;
  const auto whole = std::filesystem::absolute(path, code);
  return code ? path : whole.lexically_normal().string();
}

std::vector<std::string> absolute(std::vector<std::string> paths) {
  for (auto& path : paths) path = absolute(path);
  return paths;
}

/// Returns `text` as a YAML scalar. Quotes it, as JSON does, unless every YAML parser reads the bare text as a string.
std::string scalar(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./:").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const bool plain = !text.empty() && !text.starts_with('-') && !text.starts_with('.') &&
                     !text.ends_with(':') && std::all_of(text.begin(), text.end(), is_plain);
  return plain ? text : boost::json::serialize(text);
}

struct Yaml {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::uint64_t value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return scalar(value); }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string out = "[";
    for (const auto& value : values) out += (&value == &values.front() ? "" : ", ") + scalar(value);
    return out + "]";
  }
};

struct Read {
  const Settings& of;
  Value operator()(const Text& kind) const { return (of.*kind.at).empty() ? Value() : Value(of.*kind.at); }
  Value operator()(const Path& kind) const {
    return (of.*kind.at).empty() ? Value() : Value(absolute(of.*kind.at));
  }
  Value operator()(const List& kind) const { return kind.paths ? absolute(of.*kind.at) : of.*kind.at; }
  Value operator()(const Switch& kind) const { return of.*kind.at; }
  Value operator()(const Count& kind) const {
    return of.*kind.at < kind.least ? Value() : Value(of.*kind.at);  // a value of 0 lets the server choose
  }
  Value operator()(const Milliseconds& kind) const {
    return static_cast<std::uint64_t>((of.*kind.at).count());
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
  for (const char c : key)
    out += c == '.' || c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

Value value_of(const Setting& setting, const Settings& of) {
  return std::visit(Read{of}, setting.kind);
}

std::string value_text(const Setting& setting, const Settings& of) {
  return std::visit(Yaml(), value_of(setting, of));
}

std::vector<const Setting*> differing(const Settings& a, const Settings& b) {
  std::vector<const Setting*> out;
  for (const Setting& setting : kSettings)
    if (differs(setting, a, b)) out.push_back(&setting);
  return out;
}

}  // namespace millrace::server::config
