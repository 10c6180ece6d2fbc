#include "tests/integration/installed_prefix.hpp"

#include <stdexcept>

#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

InstalledPrefix::InstalledPrefix() {
  const Outcome installed =
      run_program({MILLRACE_CMAKE, "--install", tests::binary_dir(), "--prefix", path().string()});
  if (installed.exit_code != 0) throw std::runtime_error("cmake --install: " + installed.err);
  std::filesystem::create_directory(elsewhere());
}

std::vector<std::string> InstalledPrefix::from_elsewhere(const std::vector<std::string>& command) const {
  std::vector<std::string> all{"env", "-C", elsewhere().string()};
  for (const char* name : {"MILLRACE_XRT_SHIM", "MILLRACE_CARD", "XILINX_XRT"})
    all.insert(all.end(), {"-u", name});
  all.push_back("MILLRACE_CACHE=" + (directory_.path() / "cache").string());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

}  // namespace millrace::tests
