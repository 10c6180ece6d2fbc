// Helpers of the writers in this folder. Private to compiler/emit/vitis.
#pragma once

#include <string>
#include <string_view>

#include "compiler/emit/rtl/text.hpp"
#include "kernels/rtl/library.hpp"

namespace millrace::compiler::emit {

inline const std::string kNeverRun =
    "# Written by millrace. Checked against stand-ins only: this has never met Vivado, Vitis or a card.\n";

/// The text of templates/<name>.*.in, embedded in the binary.
std::string_view vitis_text(std::string_view name);

/// A module of kernels/rtl that a partition's own library does not have.
inline std::string library_text(std::string_view path) {
  for (const auto& file : kernels::rtl::library())
    if (file.path == path) return std::string(file.text);
  return {};
}

}  // namespace millrace::compiler::emit
