// The network of a partition as one module. Private to compiler/emit/rtl.
#pragma once

#include <string>

#include "compiler/emit/rtl/rtl.hpp"

namespace millrace::compiler::emit {

std::string dataflow_text(const generators::Design& design, const kernels::Program& program,
                          const RtlOptions& options);

}  // namespace millrace::compiler::emit
