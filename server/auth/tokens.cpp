#include "server/auth/tokens.hpp"

#include <openssl/crypto.h>
#include <strings.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include "runtime/base/digest.hpp"
#include "runtime/base/text.hpp"

namespace millrace::server::auth {
namespace {

constexpr std::size_t kShortest = 16, kLongest = 512;
constexpr std::string_view kHashed = "sha256:";

constexpr std::string_view kScopes[] = {"none", "read", "infer", "admin"};  // in the order of Scope

std::optional<Scope> parse_scope(std::string_view text) {
  for (const Scope scope : {Scope::kRead, Scope::kInfer, Scope::kAdmin})
    if (text == to_string(scope)) return scope;
  return std::nullopt;
}

/// Whether `text` has an allowed length and only characters of a b64token (RFC 6750, 2.1).
bool is_token(std::string_view text) {
  return text.size() >= kShortest && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 ||
                  std::string_view("-._~+/=").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

/// A SECRET of the tokens file is a token, or "sha256:" and the digest of a token. Returns the token's digest in lower
/// case, or "" if the SECRET is malformed.
std::string digest_of_secret(std::string_view secret) {
  if (!secret.starts_with(kHashed)) return is_token(secret) ? sha256_hex(secret) : "";
  std::string hex(secret.substr(kHashed.size()));
  if (hex.size() != 64 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return "";
  std::transform(hex.begin(), hex.end(), hex.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return hex;
}

/// Returns the token of an Authorization header "Bearer TOKEN", or "" if the header has another form.
std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() <= kScheme.size() ||
      ::strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0)
    return {};
  return authorization.substr(
      std::min(authorization.find_first_not_of(' ', kScheme.size()), authorization.size()));
}

}  // namespace

std::string_view to_string(Scope scope) {
  return kScopes[static_cast<std::size_t>(scope)];
}

Result<Tokens> Tokens::parse(std::string_view text, const std::string& file) {
  Tokens out;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto bad = [&](const std::string& what) {
      return Error(ErrorCode::kInvalidInput, file + ":" + std::to_string(number) + ": " + what);
    };
    line.resize(std::min(line.find('#'), line.size()));
    std::istringstream fields(line);
    std::string name, scope_name, secret, more;
    if (!(fields >> name)) continue;
    if (!(fields >> scope_name >> secret) || fields >> more)
      return bad("three words are expected: NAME SCOPE SECRET");
    if (!is_name(name))
      return bad("the name must have 1 to 128 of the characters A-Z a-z 0-9 _ - . and not begin with - or .");
    const auto scope = parse_scope(scope_name);
    if (!scope) return bad("the scope is none of read, infer, admin");
    const std::string digest = digest_of_secret(secret);
    if (digest.empty() && secret.starts_with(kHashed))
      return bad("sha256: must be followed by 64 hexadecimal digits");
    if (digest.empty())
      return bad(
          "the secret must have 16 to 512 of the characters A-Z a-z 0-9 - . _ ~ + / =, "
          "or be sha256: with 64 digits");
    for (const HashedToken& token : out.tokens_) {
      if (token.holder.name == name) return bad("the name '" + name + "' is listed twice");
      if (token.digest == digest) return bad("'" + token.holder.name + "' has the same secret");
    }
    out.tokens_.push_back({{name, *scope}, digest});
  }
  if (out.tokens_.empty()) return Error(ErrorCode::kInvalidInput, file + ": holds no token");
  return out;
}

const Holder* Tokens::find(std::string_view authorization) const {
  const std::string_view token = bearer(authorization);
  if (token.empty() || token.size() > kLongest) return nullptr;
  const std::string digest = sha256_hex(token);
  const Holder* found = nullptr;
  for (const HashedToken& hashed : tokens_)
    if (CRYPTO_memcmp(hashed.digest.data(), digest.data(), digest.size()) == 0) found = &hashed.holder;
  return found;
}

void Guard::replace(std::shared_ptr<const Tokens> tokens) {
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
  generation_.fetch_add(1, std::memory_order_release);
}

const Tokens* Guard::refresh(View& view) const {
  if (generation_.load(std::memory_order_acquire) != view.generation_) {
    const std::lock_guard lock(mutex_);
    view.tokens_ = tokens_;
    view.generation_ = generation_.load(std::memory_order_relaxed);
  }
  return view.tokens_.get();
}

}  // namespace millrace::server::auth
