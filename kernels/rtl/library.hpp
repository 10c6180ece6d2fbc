// The SystemVerilog of this folder as texts in the binary, so that a deployment can hold what it uses.
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

/// Every module, ascending by path. Static storage.
const std::vector<LibraryFile>& library();

/// The modules that `modules` need, themselves included, ascending by path; names that are none of the
/// library are left out.
std::vector<LibraryFile> closure(const std::set<std::string>& modules);

}  // namespace millrace::kernels::rtl
