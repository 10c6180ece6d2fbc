#include "kernels/rtl/library.hpp"

#include <algorithm>
#include <map>

namespace millrace::kernels::rtl {
namespace {

std::string_view stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.substr(0, path.rfind('.'));
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// All words in a text that begin with mr_.
std::set<std::string_view> mentioned(std::string_view text) {
  std::set<std::string_view> words;
  for (std::size_t at = text.find("mr_"); at != std::string_view::npos; at = text.find("mr_", at + 1)) {
    if (at > 0 && is_word(text[at - 1])) continue;
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    words.insert(text.substr(at, end - at));
  }
  return words;
}

/// The text without its `//` comments.
std::string code(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    kept += line.substr(0, line.find("//"));
    kept += '\n';
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return kept;
}

}  // namespace

std::vector<LibraryFile> closure(const std::set<std::string>& modules) {
  std::map<std::string_view, const LibraryFile*> all;
  for (const auto& file : library()) all[stem(file.path)] = &file;
  std::set<const LibraryFile*> needed;
  std::vector<std::string> open(modules.begin(), modules.end());
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    const auto found = all.find(name);
    if (found == all.end() || !needed.insert(found->second).second) continue;
    const std::string text = code(found->second->text);
    for (const auto word : mentioned(text)) open.emplace_back(word);
  }
  std::vector<LibraryFile> files;
  for (const auto& file : library())
    if (needed.contains(&file)) files.push_back(file);
  return files;
}

}  // namespace millrace::kernels::rtl
