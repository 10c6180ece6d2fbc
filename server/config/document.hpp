// Prints the settings in force as a file for --config, with the origin of each.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "server/config/load.hpp"

namespace millrace::server::config {

/// A setting's value in its own type. monostate: the setting has no value (no path, or a number that the
/// server chooses).
using Value = std::variant<std::monostate, bool, std::uint64_t, std::string, std::vector<std::string>>;

/// Paths are absolute, so that a file with the value may be moved.
Value value_of(const Setting& setting, const Settings& of);

/// Every setting in YAML, one on each line, with its origin as a comment. A setting without a value is a key
/// without one.
std::string document(const Loaded& loaded);

}  // namespace millrace::server::config
