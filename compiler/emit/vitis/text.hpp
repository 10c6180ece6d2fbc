// What the writers of compiler/emit/vitis share. Private to it.
#pragma once

#include <string>
#include <string_view>

#include "kernels/rtl/library.hpp"

namespace millrace::compiler::emit {

inline constexpr const char* kNeverRun =
    "# Written by millrace. Checked against stand-ins only: this has never met Vivado, Vitis or a card.\n";

/// A module of kernels/rtl that a partition's own library does not have.
inline std::string library_text(std::string_view path) {
  for (const auto& file : kernels::rtl::library())
    if (file.path == path) return std::string(file.text);
  return {};
}

}  // namespace millrace::compiler::emit
