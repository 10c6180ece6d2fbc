// The settings in force as a file that --config takes, with where each comes from.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "server/config/load.hpp"

namespace millrace::server::config {

/// A setting's value in its own type. monostate: nothing, where a file leaves the key out (no path, or a
/// number that is chosen by the server).
using Value = std::variant<std::monostate, bool, std::uint64_t, std::string, std::vector<std::string>>;

/// Paths are absolute, so that the value means the same in a file anywhere.
Value value_of(const Setting& setting, const Settings& of);

/// Every setting in YAML, a line each, ending in a comment that says its origin. What has no value is a key
/// without one.
std::string document(const Loaded& loaded);

}  // namespace millrace::server::config
