// Finds files that are installed with the programs: cluster files, device files and documents. A program in a build
// folder finds the files of its source tree. Any thread may call the functions.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

/// Returns the path `share/millrace/<what>` in this program's prefix, or an empty path if it does not exist.
std::filesystem::path installed(std::string_view what);

/// Returns the installed path of a document of the source tree ("compiler/README.md"), or `name` if the
/// document is not installed.
std::string document(std::string_view name);

/// Returns the path of the cluster file that a user names: by a path relative to `folder` (if empty, the current one),
/// or by the name of an installed file ("three-ku060"). A file in the folder is preferred. Does not read the file.
/// Returns kNotFound if neither exists; the message lists the installed clusters.
Result<std::filesystem::path> find_cluster(const std::filesystem::path& given,
                                           const std::filesystem::path& folder = {});

/// Returns the path of the description of a device kind ("u280"): in the folder `devices`, or else among the installed
/// ones. Does not read the file. Returns kNotFound if neither exists; the message lists the installed devices.
Result<std::filesystem::path> find_device(const std::string& kind, const std::filesystem::path& devices);

}  // namespace millrace::runtime::plan
