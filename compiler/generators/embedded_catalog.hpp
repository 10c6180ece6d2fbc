// kernels/catalog.yaml as it was when the program was built.
#pragma once

#include <string_view>

namespace millrace::compiler::generators {

extern const std::string_view kEmbeddedCatalog;

}  // namespace millrace::compiler::generators
