// Lays out text in columns for a terminal. Private to this folder.
#pragma once

#include <cstddef>
#include <string>

namespace millrace::compiler::report {

inline constexpr std::size_t kColumns = 80;  // of a line

/// Return the text at the left or right of a column of `width` characters. left() shortens a text that is longer and
/// ends it with "..", right() leaves it as it is.
std::string left(const std::string& text, std::size_t width);
std::string right(const std::string& text, std::size_t width);

/// Breaks a text into lines of at most kColumns. The first line begins with `first`, all others with `indent`.
std::string wrapped(const std::string& text, const std::string& first, const std::string& indent);

}  // namespace millrace::compiler::report
