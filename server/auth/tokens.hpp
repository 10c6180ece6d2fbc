// Bearer tokens and the rights of their holders. README.md has the format of the tokens file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::server::auth {

/// The rights of a holder. Each scope includes the scopes listed before it. Routes of scope kNone need no token.
enum class Scope : std::uint8_t { kNone, kRead, kInfer, kAdmin };

std::string_view to_string(Scope scope);

struct Holder {
  std::string name;
  Scope scope = Scope::kRead;
  bool operator==(const Holder&) const = default;
};

/// A set of bearer tokens and their holders. It is immutable; any thread may use it.
class Tokens {
 public:
  /// Parses the text of a tokens file. The error kInvalidInput names `file` and the line, but never a secret.
  static Result<Tokens> parse(std::string_view text, const std::string& file);

  /// Returns the holder of the token in an Authorization header ("Bearer …"), or null if the token is
  /// unknown. How long the search takes does not depend on the tokens.
  const Holder* find(std::string_view authorization) const;

  std::size_t size() const { return tokens_.size(); }

  /// Whether both sets have the same holders with the same tokens, in the same order. The comparison need not
  /// take constant time, because no client supplies either set.
  bool operator==(const Tokens&) const = default;

 private:
  struct HashedToken {
    Holder holder;
    std::string digest;  // SHA-256 of the token, 64 hexadecimal digits in lower case
    bool operator==(const HashedToken&) const = default;
  };
  std::vector<HashedToken> tokens_;
};

/// The tokens of a running server; they can be replaced. Before the first replace() requests need no token.
class Guard {
 public:
  /// A thread's own reference to the tokens. refresh() costs one atomic load unless the tokens were replaced.
  class View {
    friend class Guard;
    std::shared_ptr<const Tokens> tokens_;
    std::uint64_t generation_ = 0;
  };

  /// Replaces the tokens. If `tokens` is null, requests need no token from now on. Any thread may call it.
  void replace(std::shared_ptr<const Tokens> tokens);

  /// Returns the current tokens, or null if requests need no token. Valid until the view's next refresh.
  const Tokens* refresh(View& view) const;

 private:
  mutable std::mutex mutex_;  // protects tokens_
  std::shared_ptr<const Tokens> tokens_;
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace millrace::server::auth
