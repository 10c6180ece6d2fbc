// What is installed with the programs: cluster files by name, and documents. Programs of a build folder have those of
// their checkout. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

/// What `share/millrace` of this program's prefix has under this name ("clusters"); empty where there is nothing.
std::filesystem::path installed(std::string_view what);

/// The path of a document that is named as in the source tree, "compiler/README.md"; that name itself where none is
/// installed.
std::string document(std::string_view name);

/// The cluster file that a user names: a path, relative to `folder` (empty: the current one), or the name of an
/// installed one ("three-ku060"). A file of that name in the folder wins, a directory does not. Does not read it.
/// kNotFound where a name is neither; the message lists the installed ones.
Result<std::filesystem::path> find_cluster(const std::filesystem::path& given,
                                           const std::filesystem::path& folder = {});

}  // namespace millrace::runtime::plan
