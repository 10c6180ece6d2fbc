#include "server/config/document.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

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

Value text_or_nothing(const std::string& text) {
  return text.empty() ? Value() : Value(text);
}

/// A YAML scalar, quoted unless every YAML reader reads it as this text.
std::string scalar(const std::string& text) {
  const bool plain = !text.empty() && std::string_view("-.").find(text[0]) == std::string_view::npos &&
                     std::all_of(text.begin(), text.end(),
                                 [](char c) {
                                   return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                                          (c >= 'A' && c <= 'Z') ||
                                          std::string_view("_-./:").find(c) != std::string_view::npos;
                                 }) &&
                     text.back() != ':';
  if (plain) return text;
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      out += escaped;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

struct Yaml {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(bool value) const { return value ? " true" : " false"; }
  std::string operator()(std::uint64_t value) const { return " " + std::to_string(value); }
  std::string operator()(const std::string& value) const { return " " + scalar(value); }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string out = " [";
    for (const auto& value : values) out += (&value == &values.front() ? "" : ", ") + scalar(value);
    return out + "]";
  }
};

struct Read {
  const Settings& of;
  Value operator()(const Text& kind) const { return text_or_nothing(of.*kind.at); }
  Value operator()(const Path& kind) const {
    return (of.*kind.at).empty() ? Value() : Value(absolute(of.*kind.at));
  }
  Value operator()(const PathOrName& kind) const { return (*this)(static_cast<const Path&>(kind)); }
  Value operator()(const Paths& kind) const { return absolute(of.*kind.at); }
  Value operator()(const Count& kind) const {
    return of.*kind.at < kind.least ? Value() : Value(of.*kind.at);  // 0: the server chooses
  }
  Value operator()(const Milliseconds& kind) const {
    return static_cast<std::uint64_t>((of.*kind.at).count());
  }
  Value operator()(const auto& kind) const { return of.*kind.at; }  // the others as they are
};

}  // namespace

Value value_of(const Setting& setting, const Settings& of) {
  return std::visit(Read{of}, setting.kind);
}

std::string document(const Loaded& loaded) {
  std::string whole = "schema: 1\n", sections;
  std::string_view open;
  for (const Setting& setting : settings()) {
    const auto dot = setting.key.find('.');
    const bool in_section = dot != std::string_view::npos;
    const auto section = in_section ? setting.key.substr(0, dot) : std::string_view();
    if (in_section && section != open) sections += std::string(section) + ":\n";
    if (in_section) open = section;
    (in_section ? sections : whole) +=
        (in_section ? "  " : "") + std::string(in_section ? setting.key.substr(dot + 1) : setting.key) + ":" +
        std::visit(Yaml(), value_of(setting, loaded.settings)) + "  # " + loaded.origin(setting.key) + "\n";
  }
  return whole + sections;
}

}  // namespace millrace::server::config
