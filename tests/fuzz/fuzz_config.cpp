// Reads arbitrary bytes as server.yaml or as a tokens file. The reader must either refuse the file with a message that
// has the file's name and a line, or accept it with every value within its bounds.
//
// If the first input byte is even, the rest is read as server.yaml; if it is odd, as a tokens file.
#include <cstdlib>
#include <string>

#include "server/auth/tokens.hpp"
#include "server/config/load.hpp"

namespace {

using namespace millrace;
using namespace millrace::server;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const config::Settings& settings) {
  for (const auto& setting : config::settings()) {
    if (const auto* count = std::get_if<config::Count>(&setting.kind)) {
      const auto value = settings.*count->at, usual = config::Settings{}.*count->at;
      require(value == usual || (value >= count->least && value <= count->most));
    }
    require(config::environment_name(setting.key).starts_with("MILLRACE_"));
    config::value_text(setting, settings);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    const auto loaded = config::load_text(text, "f.yaml", {});
    if (loaded.ok()) return check(loaded->settings), 0;
    require(loaded.error().message().starts_with("f.yaml:"));
    return 0;
  }
  const auto tokens = auth::Tokens::parse(text, "tokens");
  if (!tokens.ok()) return require(tokens.error().message().starts_with("tokens:")), 0;
  require(tokens->size() > 0);
  tokens->find("Bearer " + text);
  return 0;
}
