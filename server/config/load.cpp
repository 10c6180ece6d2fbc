#include "server/config/load.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "runtime/base/file.hpp"
#include "runtime/plan/installed.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::server::config {
namespace {

namespace yaml = runtime::plan::yaml;

constexpr std::uint64_t kMostFileBytes = 1U << 20U;

Error bad(const std::string& origin, const std::string& message) {
  return Error(ErrorCode::kInvalidInput, origin + ": " + message);
}

std::string shown(std::string_view text) {
  return "'" + std::string(text.substr(0, 200)) + "'";
}

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const auto word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

/// The values that a source (file, variable or flag) has for a setting.
struct Given {
  std::string origin;  // the beginning of every error message
  std::vector<std::string> values;
  std::filesystem::path folder;  // relative paths start here; empty: the working directory
};

/// Checks the values of a setting and stores them. There is an overload for each kind of setting.
struct Store {
  const Given& given;
  Settings& to;

  Result<std::string> one() const {
    if (given.values.size() != 1) return bad(given.origin, "one value is expected, not a list");
    return given.values.front();
  }
  std::string resolved(const std::string& path) const {
    return given.folder.empty() || path.empty() ? path : (given.folder / path).lexically_normal().string();
  }
  Result<std::uint64_t> number(std::uint64_t least, std::uint64_t most) const {
    MILLRACE_ASSIGN(const std::string text, one());
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    if (code != std::errc() || stop != end || value < least || value > most)
      return bad(given.origin, shown(text) + " is not a whole number from " + std::to_string(least) + " to " +
                                   std::to_string(most));
    return value;
  }

  Status operator()(const Text& kind) const {
    MILLRACE_ASSIGN(const std::string text, one());
    if (!kind.words.empty() && std::find(kind.words.begin(), kind.words.end(), text) == kind.words.end())
      return bad(given.origin, shown(text) + " is not supported; known: " + joined(kind.words));
    to.*kind.at = text;
    return {};
  }
  Status operator()(const Path& kind) const {
    MILLRACE_ASSIGN(const std::string text, one());
    to.*kind.at = resolved(text);
    if (!kind.cluster || text.empty()) return {};
    const auto found = runtime::plan::find_cluster(text, given.folder);
    if (!found.ok()) return found.error().within(given.origin);
    to.*kind.at = found->string();
    return {};
  }
  Status operator()(const List& kind) const {
    to.*kind.at = given.values;
    if (!kind.paths) return {};
    for (auto& value : to.*kind.at) {
      if (value.empty()) return bad(given.origin, "a path is empty");
      value = resolved(value);
    }
    return {};
  }
  Status operator()(const Switch& kind) const {
    MILLRACE_ASSIGN(const std::string text, one());
    if (text != "true" && text != "false")
      return bad(given.origin, shown(text) + " is neither true nor false");
    to.*kind.at = text == "true";
    return {};
  }
  Status operator()(const Count& kind) const {
    MILLRACE_ASSIGN(to.*kind.at, number(kind.least, kind.most));
    return {};
  }
  Status operator()(const Milliseconds& kind) const {
    MILLRACE_ASSIGN(const std::uint64_t value, number(kind.least, kind.most));
    to.*kind.at = std::chrono::milliseconds(value);
    return {};
  }
};

bool is_list(const Setting& setting) {
  return std::holds_alternative<List>(setting.kind);
}

Status store(const Setting& setting, const Given& given, const std::string& origin, Loaded& out) {
  MILLRACE_TRY(std::visit(Store{given, out.settings}, setting.kind));
  out.origins[std::string(setting.key)] = origin;
  return {};
}

class FileReader {
 public:
  FileReader(std::filesystem::path path, Loaded& out)
      : file_(path.string()), folder_(path.parent_path()), out_(out) {}

  Status read(const yaml::Node& root) {
    if (root.kind != yaml::Node::Kind::kMapping)
      return yaml::error_at(file_, root, "a mapping of settings is expected");
    return section(root, "");
  }

 private:
  Status section(const yaml::Node& mapping, const std::string& prefix) {
    for (const auto& [name, value] : mapping.entries) {
      const std::string key = prefix + name;
      if (prefix.empty() && name == "schema") {
        if (value.scalar != "1")
          return yaml::error_at(file_, value, "schema: " + shown(value.scalar) + " is not known; 1 is");
        continue;
      }
      if (const Setting* setting = find_setting(key)) {
        MILLRACE_TRY(take(*setting, value));
      } else if (is_section(key)) {
        if (value.kind == yaml::Node::Kind::kNull) continue;
        if (value.kind != yaml::Node::Kind::kMapping)
          return yaml::error_at(file_, value, key + ": settings are expected below it: " + known(key + "."));
        MILLRACE_TRY(section(value, key + "."));
      } else {
        return yaml::error_at(file_, value, "unknown key " + shown(key) + "; known here: " + known(prefix));
      }
    }
    return {};
  }

  Status take(const Setting& setting, const yaml::Node& node) {
    if (node.kind == yaml::Node::Kind::kNull) return {};  // "key:" without a value counts as absent
    const std::string where = file_ + ":" + std::to_string(node.line);
    Given given{where + ": " + std::string(setting.key), {}, folder_};
    if (node.kind == yaml::Node::Kind::kMapping)
      return bad(given.origin, "a value is expected, not a mapping");
    if (node.kind == yaml::Node::Kind::kScalar) given.values.push_back(node.scalar);
    if (node.kind == yaml::Node::Kind::kSequence) {
      if (!is_list(setting)) return bad(given.origin, "one value is expected, not a list");
      for (const auto& item : node.items) {
        if (item.kind != yaml::Node::Kind::kScalar)
          return bad(given.origin, "a list of plain texts is expected");
        given.values.push_back(item.scalar);
      }
    }
    return store(setting, given, where, out_);
  }

  static bool is_section(const std::string& key) {
    return std::any_of(settings().begin(), settings().end(),
                       [&](const Setting& setting) { return setting.key.starts_with(key + "."); });
  }

  /// Returns a list of the keys that begin with `prefix` ("" or "http."), for messages.
  static std::string known(const std::string& prefix) {
    std::set<std::string> names;
    if (prefix.empty()) names.insert("schema");
    for (const Setting& setting : settings()) {
      if (!setting.key.starts_with(prefix)) continue;
      const std::string_view rest = setting.key.substr(prefix.size());
      names.emplace(rest.substr(0, rest.find('.')));
    }
    std::string out;
    for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

  const std::string file_;
  const std::filesystem::path folder_;
  Loaded& out_;
};

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');)
    if (!part.empty()) out.push_back(part);
  return out;
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1],
                               std::min({diagonal + (a[i] == b[j] ? 0U : 1U), row[j] + 1, row[j + 1] + 1}));
  }
  return row.back();
}

/// Whether a variable's name begins with the prefix of a section, for example with MILLRACE_HTTP_.
bool is_in_section(const std::string& name) {
  return std::any_of(settings().begin(), settings().end(), [&](const Setting& setting) {
    const auto dot = setting.key.find('.');
    return dot != std::string_view::npos &&
           name.starts_with(environment_name(setting.key.substr(0, dot + 1)));
  });
}

/// Returns the setting that a misspelt variable probably means (MILLRACE_UDP: --udp), or null if no name is similar.
const Setting* setting_meant_by(const std::string& name) {
  constexpr std::size_t kLongest = 64, kTypos = 2;
  if (name.size() > kLongest || name == "MILLRACE_CACHE")
    return nullptr;  // names the cache, and is near MILLRACE_PACE
  const Setting* nearest = nullptr;
  std::size_t least = kTypos + 1;
  for (const Setting& setting : settings())
    if (const auto typos = distance(name, environment_name(setting.key)); typos < least) {
      nearest = &setting;
      least = typos;
    }
  for (const Setting& setting : settings())
    if (nearest == nullptr && name == environment_name(setting.flag.substr(2))) nearest = &setting;
  return nearest;
}

/// Refuses unknown variables whose names begin like a section. Other programs may use names that begin with MILLRACE_,
/// so an unknown variable whose name only resembles a setting causes a warning.
Status check_names(const std::map<std::string, std::string>& environment,
                   std::vector<std::string>& warnings) {
  for (const auto& [name, value] : environment) {
    const Setting* const meant = setting_meant_by(name);
    if (meant != nullptr && name == environment_name(meant->key)) continue;
    if (is_in_section(name))
      return bad(name, "no setting has this environment variable; 'millrace serve --help' lists them");
    if (meant != nullptr)
      warnings.push_back(name +
                         ": no setting has this environment variable, so it is ignored; "
                         "did you mean " +
                         environment_name(meant->key) + "?");
  }
  return {};
}

Status read_environment(const std::map<std::string, std::string>& environment, Loaded& out) {
  MILLRACE_TRY(check_names(environment, out.warnings));
  for (const Setting& setting : settings()) {
    const auto found = environment.find(environment_name(setting.key));
    if (found == environment.end()) continue;
    const auto values =
        is_list(setting) ? split_at_commas(found->second) : std::vector<std::string>{found->second};
    MILLRACE_TRY(store(setting, {found->first, values, {}}, found->first, out));
  }
  return {};
}

Status read_flags(const std::map<std::string, std::vector<std::string>>& flags, Loaded& out) {
  for (const auto& [key, values] : flags) {
    const Setting* setting = find_setting(key);
    if (setting == nullptr) return Error(ErrorCode::kInternal, "no setting " + shown(key));
    const std::string flag(setting->flag);
    MILLRACE_TRY(store(*setting, {flag, values, {}}, flag, out));
  }
  return {};
}

Status check_needs(const Loaded& loaded) {
  for (const Setting* setting : differing(loaded.settings, {})) {
    const Setting* const needed = find_setting(setting->needs);
    if (needed != nullptr && !differs(*needed, loaded.settings, {}))
      return bad(loaded.named(setting->key),
                 "needs " + std::string(needed->key) + " (" + std::string(needed->flag) + ")");
  }
  return {};
}

/// Whether `text` is an origin as browsers write it in the header Origin (RFC 6454, 6.2). Requires lower case, because
/// the server compares origins byte by byte.
bool is_origin(std::string_view text) {
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/?#@* \t") == std::string_view::npos &&
         std::none_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

Status check_origins(const Loaded& loaded) {
  for (const auto& origin : loaded.settings.http_cors_origins)
    if (origin != "*" && !is_origin(origin))
      return bad(loaded.named("http.cors_origins"),
                 shown(origin) +
                     " is not a valid origin; examples: https://panel.example, http://localhost:3000, *");
  return {};
}

Result<Loaded> finish(Loaded loaded, const Sources& sources) {
  MILLRACE_TRY(read_environment(sources.environment, loaded));
  MILLRACE_TRY(read_flags(sources.flags, loaded));
  MILLRACE_TRY(check_needs(loaded));
  MILLRACE_TRY(check_origins(loaded));
  return loaded;
}

}  // namespace

std::string Loaded::origin(std::string_view key) const {
  const auto found = origins.find(std::string(key));
  return found == origins.end() ? "default" : found->second;
}

std::string Loaded::named(std::string_view key) const {
  const std::string from = origin(key);
  if (from == "default") return std::string(key);
  const Setting* setting = find_setting(key);
  return setting != nullptr && from == setting->flag ? from : from + ": " + std::string(key);
}

Result<Loaded> load(const Sources& sources) {
  if (sources.file.empty()) return finish({}, sources);
  MILLRACE_ASSIGN(const std::string text, read_text_file(sources.file, kMostFileBytes));
  return load_text(text, sources.file, sources);
}

Result<Loaded> load_text(const std::string& text, const std::filesystem::path& name, const Sources& sources) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::parse(text, name.string()));
  Loaded loaded;
  MILLRACE_TRY(FileReader(name, loaded).read(root));
  return finish(std::move(loaded), sources);
}

std::string document(const Loaded& loaded) {
  std::string whole = "schema: 1\n", sections;
  std::string_view open;
  for (const Setting& setting : settings()) {
    const auto dot = setting.key.find('.');
    const bool in_section = dot != std::string_view::npos;
    const auto section = in_section ? setting.key.substr(0, dot) : std::string_view();
    const auto name = in_section ? setting.key.substr(dot + 1) : setting.key;
    if (in_section && section != open) sections += std::string(open = section) + ":\n";
    const std::string value = value_text(setting, loaded.settings);
    (in_section ? sections : whole) += (in_section ? "  " : "") + std::string(name) + ":" +
                                       (value.empty() ? "" : " ") + value + "  # " +
                                       loaded.origin(setting.key) + "\n";
  }
  return whole + sections;
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("MILLRACE_") && equals != std::string_view::npos)
      out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace millrace::server::config
