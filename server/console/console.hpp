// The files of the console (the server's web page), which are embedded in the binary.
#pragma once

#include <optional>
#include <string_view>

namespace millrace::server::console {

struct File {
  std::string_view content_type, bytes;  // valid until the program ends
};

/// Returns the file with this name ("index.html", "main.js"), or nothing if the console has no such file.
std::optional<File> find(std::string_view name);

}  // namespace millrace::server::console
