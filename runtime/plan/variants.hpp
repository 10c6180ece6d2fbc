// Directories of several deployments of one model (compiler/variants): whether they may be written.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

/// The index file in such a directory.
inline constexpr char kVariantsFile[] = "variants.json";

/// As check_replaceable(), for a directory of deployments. It must be absent, empty, or hold only an index,
/// deployments and perhaps a Makefile.
Status check_variants_replaceable(const std::filesystem::path& directory,
                                  const std::vector<std::filesystem::path>& inputs);

/// kInvalidInput if `directory` holds variants; for commands that need one deployment.
Status check_no_variants(const std::filesystem::path& directory);

}  // namespace millrace::runtime::plan
