#include "kernels/rtl/library.hpp"

#include <map>
#include <regex>

namespace millrace::kernels::rtl {

std::vector<LibraryFile> closure(const std::set<std::string>& modules) {
  static const std::regex comment("//[^\n]*"), name("\\bmr_\\w*");
  std::map<std::string, const LibraryFile*> all;
  for (const auto& file : library()) {
    const std::size_t begin = file.path.rfind('/') + 1;
    all.emplace(file.path.substr(begin, file.path.rfind('.') - begin), &file);
  }
  std::set<const LibraryFile*> needed;
  std::vector<std::string> open(modules.begin(), modules.end());
  while (!open.empty()) {
    const auto found = all.find(open.back());
    open.pop_back();
    if (found == all.end() || !needed.insert(found->second).second) continue;
    const std::string code = std::regex_replace(std::string(found->second->text), comment, "");
    for (std::sregex_iterator word(code.begin(), code.end(), name), end; word != end; ++word)
      open.push_back(word->str());
  }
  std::vector<LibraryFile> files;
  for (const auto& file : library())
    if (needed.contains(&file)) files.push_back(file);
  return files;
}

}  // namespace millrace::kernels::rtl
