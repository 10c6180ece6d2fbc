// Helps tests to compare figures in READMEs with the data from which the figures come.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace millrace::tests {

/// Returns the number with commas, such as "12,345".
std::string grouped(std::uint64_t value);

/// Returns a row of a Markdown table, such as "| a | b |".
std::string table_row(std::initializer_list<std::string> cells);

/// Whether the text file at `path` in the source tree has this line.
bool has_line(const std::string& path, const std::string& line);

}  // namespace millrace::tests
