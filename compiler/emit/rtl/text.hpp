// Fills templates, and writes the pieces of SystemVerilog that a partition's top and network both need. Private to
// compiler/emit.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/emit/rtl/interfaces.hpp"
#include "compiler/generators/netlist.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::emit {

inline std::string number(std::uint64_t n) {
  return std::to_string(n);
}

/// Fills a template (compiler/templates/fill.hpp) whose tags are %name%. Every name must have a value. Formats:
///   hex     "0x1f"
///   range   8 becomes "[7:0] ", the range to write before the name of a vector of 8 bits
///   vector  like range, but empty for one bit
///   xml     escaped for XML
std::string fill(std::string_view text, const boost::json::value& values);

/// Returns the text of templates/<name>.sv.in, which is embedded in the binary.
std::string_view text_of(std::string_view name);

/// Returns the names with `suffix` after each and `separator` between them.
std::string joined(const std::vector<std::string>& names, const char* separator, const char* suffix = "");

/// Returns the names as a SystemVerilog concatenation, "{last, …, first}", each with `suffix`. The first name comes
/// last, because it has the low bits.
std::string concatenation(std::vector<std::string> names, const char* suffix);

/// Returns "#(.A(1), .B(2)) " on as many indented lines as needed: first integers, then names of files in quotes.
/// Returns an empty text if the unit has no parameters.
std::string parameter_list(const generators::Unit& unit);

/// Returns the name of the AXI4 port of the i-th weight reader: "weights0".
inline std::string weights_port(std::size_t i) {
  return "weights" + std::to_string(i);
}

/// Returns the ports <bus>_<signal> of a module, each beginning with ",\n".
std::string bus_ports(const std::string& bus, std::span<const Signal> signals);

/// Returns ".<port>_<signal>(<name>_<signal>)" for each signal, each after a comma, in lines of three.
std::string bus_connections(const std::string& port, const std::string& name,
                            std::span<const Signal> signals);

/// Returns the device and its clock for a comment in a generated file: "ku060 at 156.25 MHz".
std::string clocked(const runtime::plan::Device& device);

/// Breaks the lines of SystemVerilog that are longer than 140 characters. A line stays longer if it has no blank
/// outside of strings and directives.
std::string broken_lines(const std::string& text);

}  // namespace millrace::compiler::emit
