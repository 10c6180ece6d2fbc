#include "compiler/generators/netlist.hpp"

namespace millrace::compiler::generators {

std::int64_t parameter(const Instance& instance, const char* name, std::int64_t otherwise) {
  for (const auto& [key, value] : instance.parameters)
    if (key == name) return value;
  return otherwise;
}

std::string identifier(const std::string& block_name) {
  std::string made;
  for (const char c : block_name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    made += plain ? c : '_';
  }
  if (made.empty() || (made.front() >= '0' && made.front() <= '9') || made.front() == '_')
    made.insert(0, "b");
  return made;
}

}  // namespace millrace::compiler::generators
