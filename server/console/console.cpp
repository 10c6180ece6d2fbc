#include "server/console/console.hpp"

namespace millrace::server::console {
namespace {

struct Embedded {
  std::string_view name, bytes;
};

constexpr Embedded kFiles[] = {
#include "page.inc"
};

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

}  // namespace

std::optional<File> find(std::string_view name) {
  for (const Embedded& file : kFiles)
    if (file.name == name) return File{type_of(name), file.bytes};
  return std::nullopt;
}

}  // namespace millrace::server::console
