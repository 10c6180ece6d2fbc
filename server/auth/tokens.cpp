#include "server/auth/tokens.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "runtime/base/digest.hpp"
#include "runtime/base/text.hpp"

namespace millrace::server::auth {
namespace {

constexpr std::size_t kShortest = 16, kLongest = 512;
constexpr std::string_view kHashed = "sha256:";

std::optional<Scope> parse_scope(std::string_view text) {
  for (const Scope scope : {Scope::kRead, Scope::kInfer, Scope::kAdmin})
    if (text == to_string(scope)) return scope;
  return std::nullopt;
}

/// Whether `text` is a b64token of RFC 6750.
bool is_token(std::string_view text) {
  return text.size() >= kShortest && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("-._~+/=").find(c) != std::string_view::npos;
         });
}

std::optional<std::array<std::byte, 32>> parse_digest(std::string_view hex) {
  std::array<std::byte, 32> out{};
  if (hex.size() != 2 * out.size()) return std::nullopt;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint8_t byte = 0;
    const char* const digits = hex.data() + 2 * i;
    const auto [end, code] = std::from_chars(digits, digits + 2, byte, 16);
    if (code != std::errc() || end != digits + 2) return std::nullopt;
    out[i] = static_cast<std::byte>(byte);
  }
  return out;
}

std::array<std::byte, 32> digest_of(std::string_view token) {
  return Sha256().update(token).finish();
}

/// The token behind "Bearer "; empty if the header is something else.
std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (authorization.size() <= kScheme.size() ||
      !std::equal(kScheme.begin(), kScheme.end(), authorization.begin(),
                  [&](char scheme, char c) { return same(c, scheme); }))
    return {};
  authorization.remove_prefix(kScheme.size());
  while (!authorization.empty() && authorization.front() == ' ') authorization.remove_prefix(1);
  return authorization;
}

}  // namespace

std::string_view to_string(Scope scope) {
  switch (scope) {
    case Scope::kNone:
      return "none";
    case Scope::kRead:
      return "read";
    case Scope::kInfer:
      return "infer";
    case Scope::kAdmin:
      return "admin";
  }
  return "admin";
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
      return bad("the name takes 1 to 128 of A-Z a-z 0-9 _ - . and begins with neither - nor .");
    const auto scope = parse_scope(scope_name);
    if (!scope) return bad("the scope is none of read, infer, admin");
    std::array<std::byte, 32> digest{};
    if (secret.starts_with(kHashed)) {
      const auto parsed = parse_digest(std::string_view(secret).substr(kHashed.size()));
      if (!parsed) return bad("sha256: takes 64 hexadecimal digits");
      digest = *parsed;
    } else if (is_token(secret)) {
      digest = digest_of(secret);
    } else {
      return bad("the secret takes 16 to 512 of A-Z a-z 0-9 - . _ ~ + / =, or sha256: and 64 digits");
    }
    for (const HashedToken& token : out.tokens_) {
      if (token.holder.name == name) return bad("the name '" + name + "' stands twice");
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
  const auto digest = digest_of(token);
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
