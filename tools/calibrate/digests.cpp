#include "tools/calibrate/digests.hpp"

#include <algorithm>

#include "kernels/rtl/library.hpp"
#include "runtime/base/digest.hpp"

namespace millrace::tools::calibrate {

using compiler::synth::Sources;

namespace {

std::string without_comments(const std::string& text) {
  std::string said;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    line.resize(std::min(line.find("//"), line.size()));
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last == std::string::npos) continue;
    said += line.substr(0, last + 1) + '\n';
  }
  return said;
}

std::string beginning(Sha256& digest) {
  return to_hex(digest.finish()).substr(0, 8);
}

}  // namespace

const Sources& library() {
  static const Sources sources = [] {
    Sources all;
    for (const kernels::rtl::LibraryFile& file : kernels::rtl::library())
      all.emplace(file.path.substr(file.path.rfind('/') + 1), file.text);
    return all;
  }();
  return sources;
}

std::string digest_of(const std::string& text) {
  Sha256 digest;
  digest.update(without_comments(text));
  return beginning(digest);
}

Result<std::string> digest_of(const std::string& module, const Sources& library) {
  Sources said;
  for (const auto& [name, text] : library) said.emplace(name, without_comments(text));
  MILLRACE_ASSIGN(const Sources needed, compiler::synth::sources_of(module, said));
  Sha256 digest;
  for (const auto& [name, text] : needed) digest.update(name).update("\n").update(text);
  return beginning(digest);
}

}  // namespace millrace::tools::calibrate
