#include "tools/cli/access.hpp"

#include <cstdlib>

#include "runtime/base/file.hpp"

namespace millrace::cli {

namespace {

constexpr std::uint64_t kLongestFile = 64U << 10U;

}  // namespace

Result<clients::Access> access_of(const ServerAccess& given) {
  clients::Access access{given.ca_file.string(), !given.insecure, {}};
  if (given.insecure && !given.ca_file.empty())
    return Error(ErrorCode::kInvalidInput,
                 "--insecure accepts any certificate, so --ca-file has no effect; leave one out");
  if (given.token_file.empty()) {
    if (const char* const token = std::getenv("MILLRACE_TOKEN"); token != nullptr) access.token = token;
    if (const Status good = clients::check_token(access.token); !good.ok())
      return good.error().within("MILLRACE_TOKEN");
    return access;
  }
  MILLRACE_ASSIGN(const std::string text, read_text_file(given.token_file, kLongestFile));
  access.token = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  const std::string where = "--token-file " + given.token_file.string();
  if (access.token.empty()) return Error(ErrorCode::kInvalidInput, where + " is empty");
  if (const Status good = clients::check_token(access.token); !good.ok()) return good.error().within(where);
  return access;
}

}  // namespace millrace::cli
