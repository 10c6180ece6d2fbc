// Text from templates, and SystemVerilog that dataflow and top have in common. Private to compiler/emit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "compiler/emit/rtl/interfaces.hpp"
#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::emit {

inline std::string number(std::uint64_t n) {
  return std::to_string(n);
}

/// "0x1f".
std::string hex(std::uint64_t value);

/// `text` with every %name% replaced by the value of that name. Values are not searched again.
std::string fill(std::string_view text, const std::map<std::string_view, std::string>& values);

/// The text of templates/<name>.sv.in, embedded in the binary.
std::string_view text_of(std::string_view name);

/// "[7:0] ": the range of `width` bits, before a name; every vector has one.
std::string range(std::uint64_t width);

/// The name of a block or tensor, made safe for a comment.
std::string comment(const std::string& text);

/// "#(.A(1), .B(2)) " on as many indented lines as needed: integers, then files in quotes. Empty if there are
/// none.
std::string parameter_list(const generators::Unit& unit);

/// The AXI4 port of the i-th weight reader: "weights0".
inline std::string weights_port(std::size_t i) {
  return "weights" + std::to_string(i);
}

/// The ports <bus>_<signal> of a module; each begins with ",\n".
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

/// ".<port>_<signal>(<name>_<signal>)" for each signal, three a line, each after a comma.
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

/// The same SystemVerilog with lines of at most 140 characters. A line stays longer if it has no blank to
/// break at outside of strings and directives.
std::string broken_lines(const std::string& text);

/// The lines that every file begins with.
std::string notice(const std::string& what, const std::string& generator);

}  // namespace millrace::compiler::emit
