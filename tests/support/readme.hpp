// Compares figures in READMEs with the data that they come from.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace millrace::tests {

/// The number with commas: "12,345".
std::string grouped(std::uint64_t value);

/// A row of a Markdown table: "| a | b |".
std::string table_row(std::initializer_list<std::string> cells);

/// Whether the text file at `path` in the source tree has this line.
bool has_line(const std::string& path, const std::string& line);

}  // namespace millrace::tests
