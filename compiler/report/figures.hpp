// Formats numbers and names for people. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::compiler::report {

/// Returns a whole number with commas: "1,046".
std::string with_commas(double value);
/// Returns a number with `digits` decimals: "12.50".
std::string fixed(double value, int digits);
/// Returns a number in at most four digits: "1,046", "399 k", "10.4 M". Returns "-" if the value is not finite.
std::string short_number(double value);
/// Returns a share in percent: "0.3 %", "34 %".
std::string percent(double share);
/// Returns a number of bytes with a decimal prefix: "84 B", "1.2 GB".
std::string bytes(double value);
/// Returns a duration: "0.42 us", "1.5 ms". `micro` is the prefix for a millionth.
std::string duration(double seconds, std::string_view micro = "u");

/// Returns the first `characters` characters of a text, with "…" appended if the text is longer. The text may contain
/// bytes that are not UTF-8.
std::string shortened(std::string_view text, std::size_t characters);

/// Fills the template `text` (compiler/templates/fill.hpp) with values escaped for HTML. Tags may format numbers as
/// commas, short, percent, bytes, us, fixed or joules; a missing number is shown as "-".
std::string fill(std::string_view text, const boost::json::value& values);

}  // namespace millrace::compiler::report
