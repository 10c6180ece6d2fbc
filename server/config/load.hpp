// From server.yaml, the environment and the command line to the settings a server runs with. A flag wins over
// the environment, the environment over the file, the file over the default; a list is replaced as a whole.
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
  std::map<std::string, std::vector<std::string>> flags;  // key -> what was given
};

struct Loaded {
  Settings settings;
  std::map<std::string, std::string> origins;  // key -> "--slots", "MILLRACE_SLOTS", "server.yaml:7"
  std::vector<std::string>
      doubts;  // variables that are no setting's and nearly one's, or a flag's: a warning each
  /// Where a setting's value is from; "default" where nobody gave it.
  std::string origin(std::string_view key) const;
  /// What opens a message about the setting: "--slots", "MILLRACE_SLOTS: slots", "server.yaml:7: slots"; its
  /// key where nobody gave it.
  std::string named(std::string_view key) const;
};

/// Everything checked that can be checked without looking into another file. A cluster's name becomes the path of its
/// file. kInvalidInput naming the flag, the variable or file and line; kNotFound, kEnvironment where the file cannot
/// be read; kNotFound for a cluster that is neither a file nor installed. Unknown keys of the file are refused, and
/// variables that begin like a section's settings (MILLRACE_HTTP_…) and are none.
Result<Loaded> load(const Sources& sources);

/// As load(), with the file's text given; `name` stands for the file in messages.
Result<Loaded> load_text(const std::string& text, const std::filesystem::path& name, const Sources& sources);

/// This process's variables that begin with MILLRACE_.
std::map<std::string, std::string> process_environment();

}  // namespace millrace::server::config
