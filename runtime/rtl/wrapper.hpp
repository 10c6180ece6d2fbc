// Generates the text around a dataflow module that turns it into a simulation: a module that exposes the
// FIFOs' registers and counts the cycles in which each matrix-vector unit multiplies, and C++ with the
// functions of abi.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/rtl/design.hpp"

namespace millrace::runtime::rtl {

inline constexpr char kWrapperModule[] = "mr_simulation";
inline constexpr char kModelClass[] = "Vmr_simulation";  // the name that Verilator is told to use

/// The text of wrapper.cpp.in.
extern const std::string_view kWrapperTemplate;

/// SystemVerilog: module mr_simulation.
std::string wrapper_module(const Design& design);

/// A header with which every file of a simulation is compiled. It redirects what Verilator prints.
std::string wrapper_header();

/// C++ with the functions of abi.hpp. `memories` are the files that $readmemh reads, as paths relative to the
/// compiler's folder. They become part of the library, so a simulation needs no other file.
std::string wrapper_source(const Design& design, const std::vector<std::string>& memories);

}  // namespace millrace::runtime::rtl
