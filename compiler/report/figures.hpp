// Numbers and names as people read them. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::compiler::report {

/// "1,046"
std::string with_commas(double value);
/// "12.50"
std::string fixed(double value, int digits);
/// "1,046", "399 k", "10.4 M"; "-" if the value is not finite.
std::string short_number(double value);
/// "0.3 %", "34 %"
std::string percent(double share);
/// "84 B", "1.2 GB", decimal prefixes.
std::string bytes(double value);
/// "0.42 us", "1.5 ms"; `micro` is the prefix for a millionth.
std::string duration(double seconds, std::string_view micro = "u");

/// The first `characters` characters of a text, and "…" if the text is longer. The text may be any bytes.
std::string shortened(std::string_view text, std::size_t characters);

/// The template `text` (compiler/templates/fill.hpp) with values escaped for HTML. Formats of numbers: commas, short,
/// percent, bytes, us, fixed, joules; "-" if there is no number.
std::string fill(std::string_view text, const boost::json::value& values);

}  // namespace millrace::compiler::report
