#include "tests/support/readme.hpp"
#include "tests/paths/paths.hpp"

#include <fstream>

namespace millrace::tests {

std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string table_row(std::initializer_list<std::string> cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row;
}

bool has_line(const std::string& path, const std::string& line) {
  std::ifstream file(std::string(tests::source_dir()) + "/" + path);
  for (std::string here; std::getline(file, here);)
    if (here == line) return true;
  return false;
}

}  // namespace millrace::tests
