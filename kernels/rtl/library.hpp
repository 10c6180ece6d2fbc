// The SystemVerilog files of this folder as texts in the binary. A deployment contains copies of those it
// uses.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::kernels::rtl {

struct LibraryFile {
  std::string_view path;  // "nn/mr_mvu.sv", below this folder; its stem is the module's name
  std::string_view text;
};

/// Returns all modules, in ascending order of path. The list exists as long as the program runs.
const std::vector<LibraryFile>& library();

/// Returns `modules` and the library modules that they instantiate, directly or indirectly, in ascending order of path.
/// Names that are not in the library are ignored.
std::vector<LibraryFile> closure(const std::set<std::string>& modules);

}  // namespace millrace::kernels::rtl
