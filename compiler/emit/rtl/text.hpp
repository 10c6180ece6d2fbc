// Pieces of SystemVerilog text that dataflow and top share. Private to compiler/emit/rtl.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::emit {

/// "[7:0] ": the range of `width` bits, before a name; every vector has one.
std::string range(std::uint64_t width);

/// A name of a block or tensor as it may stand in a comment.
std::string comment(const std::string& text);

/// "#(.A(1), .B(2)) " over as many lines as it takes, indented; integers, then files in quotes. Empty where
/// there are none.
std::string parameter_list(const generators::Unit& unit);

/// The lines every file begins with.
std::string notice(const std::string& what, const std::string& generator);

}  // namespace millrace::compiler::emit
