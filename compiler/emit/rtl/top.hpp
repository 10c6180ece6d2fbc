// The shell around a partition's network. Private to compiler/emit/rtl.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

/// Modules of the library a top may use.
std::set<std::string> top_modules();

Result<std::string> top_text(const generators::Design& design,
                             const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options);

}  // namespace millrace::compiler::emit
