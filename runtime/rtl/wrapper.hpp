// The text around a dataflow module that makes a simulation of it: a module that brings out the FIFOs'
// registers and counts the cycles in which each matrix-vector unit multiplies, and C++ with the functions of
// abi.hpp.
#pragma once

#include <string>
#include <vector>

#include "runtime/rtl/design.hpp"

namespace millrace::runtime::rtl {

inline constexpr char kWrapperModule[] = "mr_simulation";
inline constexpr char kModelClass[] = "Vmr_simulation";  // as Verilator is to name it

/// SystemVerilog: module mr_simulation.
std::string wrapper_module(const Design& design);

/// A header every file of a simulation is compiled with: where Verilator's printing goes.
std::string wrapper_header();

/// C++: the functions of abi.hpp. `memories`: files that $readmemh reads, paths relative to the folder the
/// compiler runs in; they become part of the library, so that a simulation needs no file but itself.
std::string wrapper_source(const Design& design, const std::vector<std::string>& memories);

}  // namespace millrace::runtime::rtl
