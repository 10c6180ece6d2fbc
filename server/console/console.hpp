// The console's files, which are in the binary.
#pragma once

#include <optional>
#include <string_view>

namespace millrace::server::console {

struct File {
  std::string_view content_type, bytes;  // to the end of the program
};

/// "index.html", "main.js"; nothing where there is no such file.
std::optional<File> find(std::string_view name);

}  // namespace millrace::server::console
