// design.json (README.md). Private to compiler/emit/rtl.
#pragma once

#include <string>
#include <vector>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

std::string design_json(const generators::Design& design, const kernels::Program& program,
                        const RtlOptions& options, const std::vector<std::string>& files,
                        const std::string& digest);

}  // namespace millrace::compiler::emit
