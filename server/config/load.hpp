// Loads settings from server.yaml, the environment and the command line. A flag wins over the environment,
// the environment over the file, and the file over the default. A list replaces the whole list of a weaker
// source.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/config/settings.hpp"

namespace millrace::server::config {

struct Sources {
  std::filesystem::path file;                             // empty: none
  std::map<std::string, std::string> environment;         // name -> value, MILLRACE_… only
  std::map<std::string, std::vector<std::string>> flags;  // key -> values
};

struct Loaded {
  Settings settings;
  std::map<std::string, std::string> origins;  // key -> "--slots", "MILLRACE_SLOTS", "server.yaml:7"
  std::vector<std::string> warnings;  // one for each variable whose name resembles a setting's or a flag's
  /// The source of a setting's value, or "default".
  std::string origin(std::string_view key) const;
  /// The beginning of a message about the setting: "--slots", "MILLRACE_SLOTS: slots", "server.yaml:7:
  /// slots", or its key if the value is the default.
  std::string named(std::string_view key) const;
};

/// Loads and checks everything that needs no other file. Replaces the name of a cluster by the path of its
/// file. kInvalidInput, naming the flag, the variable or the line; kNotFound or kEnvironment if the file
/// cannot be read; kNotFound for a cluster that is neither a file nor installed. Refuses unknown keys of the
/// file, and unknown variables that begin like a section (MILLRACE_HTTP_…).
Result<Loaded> load(const Sources& sources);

/// load() with the file's text. Messages call the file `name`.
Result<Loaded> load_text(const std::string& text, const std::filesystem::path& name, const Sources& sources);

/// Every setting in YAML, one on each line, with its origin as a comment. The result is a file for --config. A setting
/// without a value is a key without one.
std::string document(const Loaded& loaded);

/// The variables of this process that begin with MILLRACE_.
std::map<std::string, std::string> process_environment();

}  // namespace millrace::server::config
