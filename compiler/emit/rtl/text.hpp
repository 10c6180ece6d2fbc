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
///   range   8 becomes "[7:0] ", the range of a vector of 8 bits, before its name
///   vector  the same, but nothing for one bit
///   xml     escaped for XML
std::string fill(std::string_view text, const boost::json::value& values);

/// The text of templates/<name>.sv.in, embedded in the binary.
std::string_view text_of(std::string_view name);

/// The names, each with `suffix`, and `separator` between them.
std::string joined(const std::vector<std::string>& names, const char* separator, const char* suffix = "");

/// "{last, …, first}", each name with `suffix`: the first one is in the low bits.
std::string concatenation(std::vector<std::string> names, const char* suffix);

/// "#(.A(1), .B(2)) " on as many indented lines as needed: integers, then files in quotes. Empty if there are
/// none.
std::string parameter_list(const generators::Unit& unit);

/// The AXI4 port of the i-th weight reader: "weights0".
inline std::string weights_port(std::size_t i) {
  return "weights" + std::to_string(i);
}

/// The ports <bus>_<signal> of a module; each begins with ",\n".
std::string bus_ports(const std::string& bus, std::span<const Signal> signals);

/// ".<port>_<signal>(<name>_<signal>)" for each signal, three a line, each after a comma.
std::string bus_connections(const std::string& port, const std::string& name,
                            std::span<const Signal> signals);

/// The device and its clock, for a comment: "ku060 at 156.25 MHz".
std::string clocked(const runtime::plan::Device& device);

/// Breaks the lines of SystemVerilog that are longer than 140 characters. A line stays longer if it has no blank
/// outside of strings and directives.
std::string broken_lines(const std::string& text);

}  // namespace millrace::compiler::emit
