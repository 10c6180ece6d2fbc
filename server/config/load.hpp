// Loads settings from server.yaml, the environment and the command line. A flag wins over the environment, the
// environment over the file, and the file over the default. A list replaces the whole list of a weaker source.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/config/settings.hpp"

namespace millrace::server::config {

struct Sources {
  std::filesystem::path file;                             // server.yaml; empty if there is no file
  std::map<std::string, std::string> environment;         // values by name, of MILLRACE_… variables only
  std::map<std::string, std::vector<std::string>> flags;  // values by the key of the setting
};

struct Loaded {
  Settings settings;
  std::map<std::string, std::string> origins;  // by key: "--slots", "MILLRACE_SLOTS" or "server.yaml:7"
  std::vector<std::string> warnings;  // about unknown variables whose names resemble a setting's or a flag's
  /// Returns the source of a setting's value, or "default".
  std::string origin(std::string_view key) const;
  /// Returns the beginning of a message about the setting: "--slots", "MILLRACE_SLOTS: slots" or
  /// "server.yaml:7: slots". If the value is the default, returns the key.
  std::string named(std::string_view key) const;
};

/// Loads the settings, and checks them as far as that needs no other files. Replaces the name of a cluster by the path
/// of its file. Returns kInvalidInput, naming the flag, variable or line, also for unknown keys of the file and for
/// unknown variables that begin like a section (MILLRACE_HTTP_…). Returns kNotFound for a missing file and for a
/// cluster that is neither a file nor installed, and kEnvironment for a file that cannot be read.
Result<Loaded> load(const Sources& sources);

/// Does what load() does, with the text of the file. Messages call the file `name`.
Result<Loaded> load_text(const std::string& text, const std::filesystem::path& name, const Sources& sources);

/// Returns all settings as YAML that --config can read: each setting on a line, with its origin as a comment. A setting
/// that has no value is written as a key without a value.
std::string document(const Loaded& loaded);

/// Returns the environment variables of this process whose names begin with MILLRACE_.
std::map<std::string, std::string> process_environment();

}  // namespace millrace::server::config
