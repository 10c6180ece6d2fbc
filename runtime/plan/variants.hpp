// Several deployments of one model side by side: where they may be written. What makes them:
// compiler/variants.
#pragma once

#include <filesystem>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan {

/// The index beside them.
inline constexpr char kVariantsFile[] = "variants.json";

/// As check_replaceable(), for a directory of deployments: it is absent, empty, or holds such an index and
/// deployments (and a Makefile) with nothing beside them.
Status check_variants_replaceable(const std::filesystem::path& directory,
                                  const std::vector<std::filesystem::path>& inputs);

/// kInvalidInput where it holds variants and one deployment is wanted; ok else.
Status check_no_variants(const std::filesystem::path& directory);

}  // namespace millrace::runtime::plan
