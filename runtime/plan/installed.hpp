// Finds files that are installed with the programs: cluster files and documents. A program in a build folder
// finds those of its checkout. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

/// `share/millrace/<what>` of this program's prefix; empty if there is none.
std::filesystem::path installed(std::string_view what);

/// The installed path of a document of the source tree ("compiler/README.md"); `name` itself if it is not
/// installed.
std::string document(std::string_view name);

/// The cluster file that a user names: a path, relative to `folder` (empty: the current one), or the name of
/// an installed one ("three-ku060"). A file of that name in the folder comes first. Does not read the file.
/// kNotFound if there is neither; the message lists the installed clusters.
Result<std::filesystem::path> find_cluster(const std::filesystem::path& given,
                                           const std::filesystem::path& folder = {});

}  // namespace millrace::runtime::plan
