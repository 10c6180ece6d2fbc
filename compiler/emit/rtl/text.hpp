// Pieces of SystemVerilog text that dataflow and top share. Private to compiler/emit/rtl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/emit/rtl/interfaces.hpp"
#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::emit {

/// "[7:0] ": the range of `width` bits, before a name; every vector has one.
std::string range(std::uint64_t width);

/// A name of a block or tensor as it may stand in a comment.
std::string comment(const std::string& text);

/// "#(.A(1), .B(2)) " over as many lines as it takes, indented; integers, then files in quotes. Empty where
/// there are none.
std::string parameter_list(const generators::Unit& unit);

/// The AXI4 port of the i-th weight reader: "weights0".
inline std::string weights_port(std::size_t i) {
  return "weights" + std::to_string(i);
}

/// Ports of a module, <bus>_<signal>, each begun by ",\n".
template <std::size_t N>
std::string bus_ports(const std::string& bus, const Signal (&signals)[N]) {
  std::string text = ",\n";
  for (std::size_t i = 0; i < N; ++i) {
    const Signal& s = signals[i];
    text += std::string(i > 0 ? ",\n" : "\n") + "  " + (s.input ? "input " : "output") + " logic " +
            (s.width > 1 ? range(s.width) : "") + bus + "_" + s.name;
  }
  return text;
}

/// ".<port>_<signal>(<name>_<signal>)" of each, begun by a comma, three a line.
template <std::size_t N>
std::string bus_connections(const std::string& port, const std::string& name, const Signal (&signals)[N]) {
  std::string text;
  for (std::size_t i = 0; i < N; ++i)
    text += std::string(i % 3 == 0 ? ",\n    " : ", ") + "." + port + "_" + signals[i].name + "(" + name +
            "_" + signals[i].name + ")";
  return text;
}

/// The device and its clock, for a comment: "ku060 at 156.25 MHz".
std::string clocked(const std::string& device, double clock_mhz);

/// The same SystemVerilog with no line longer than 140 characters that has a blank to break it at, outside of
/// strings and directives.
std::string broken_lines(const std::string& text);

/// The lines every file begins with.
std::string notice(const std::string& what, const std::string& generator);

}  // namespace millrace::compiler::emit
