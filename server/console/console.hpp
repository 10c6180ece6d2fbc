// The files of the console, which are embedded in the binary.
#pragma once

#include <optional>
#include <string_view>

namespace millrace::server::console {

struct File {
  std::string_view content_type, bytes;  // valid until the program ends
};

/// Finds "index.html", "main.js"; nothing if there is no such file.
std::optional<File> find(std::string_view name);

}  // namespace millrace::server::console
