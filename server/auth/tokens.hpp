// Bearer tokens and what their holders may do. README.md has the format of the file.
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

/// Each scope includes those before it. kNone: nobody needs a token for it.
enum class Scope : std::uint8_t { kNone, kRead, kInfer, kAdmin };

std::string_view to_string(Scope scope);

struct Holder {
  std::string name;
  Scope scope = Scope::kRead;
  bool operator==(const Holder&) const = default;
};

/// Immutable: any thread.
class Tokens {
 public:
  /// kInvalidInput naming `file` and the line, never a secret.
  static Result<Tokens> parse(std::string_view text, const std::string& file);

  /// The holder of the token in an Authorization header ("Bearer …"); null if it is none of these tokens. The time
  /// it takes says nothing about the tokens.
  const Holder* find(std::string_view authorization) const;

  std::size_t size() const { return tokens_.size(); }

  /// Whether both have the same holders with the same tokens, in the same order. Not in constant time: neither
  /// side comes from a client.
  bool operator==(const Tokens&) const = default;

 private:
  struct HashedToken {
    Holder holder;
    std::string digest;  // SHA-256 of the token, 64 hexadecimal digits in lower case
    bool operator==(const HashedToken&) const = default;
  };
  std::vector<HashedToken> tokens_;
};

/// The tokens of a running server, which can be replaced. Before the first replace() nobody needs one.
class Guard {
 public:
  /// A thread's own reference to the tokens. While they are not replaced, reading them costs one atomic load.
  class View {
    friend class Guard;
    std::shared_ptr<const Tokens> tokens_;
    std::uint64_t generation_ = 0;
  };

  /// Null: nobody needs a token from now on. Any thread.
  void replace(std::shared_ptr<const Tokens> tokens);

  /// Null if nobody needs a token. Valid until the view's next refresh.
  const Tokens* refresh(View& view) const;

 private:
  mutable std::mutex mutex_;  // tokens_
  std::shared_ptr<const Tokens> tokens_;
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace millrace::server::auth
