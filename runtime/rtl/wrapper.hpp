// Generates the code that turns a dataflow module into a simulation: a SystemVerilog module that exposes the FIFOs'
// registers and counts the cycles in which each matrix-vector unit multiplies, and C++ with the functions of abi.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/rtl/design.hpp"

namespace millrace::runtime::rtl {

inline constexpr char kWrapperModule[] = "mr_simulation";
inline constexpr char kModelClass[] = "Vmr_simulation";  // class name passed to Verilator

/// The content of the file wrapper.cpp.in.
extern const std::string_view kWrapperTemplate;

/// Returns the SystemVerilog of the module mr_simulation, which contains the dataflow module.
std::string wrapper_module(const Design& design);

/// Returns a C++ header that every file of a simulation includes. It redirects everything that Verilator prints.
std::string wrapper_header();

/// Returns C++ with the functions of abi.hpp. `memories` are the paths, relative to the compiler's folder, of
/// the files that $readmemh reads. The library contains these files, so a simulation needs no other file.
std::string wrapper_source(const Design& design, const std::vector<std::string>& memories);

}  // namespace millrace::runtime::rtl
