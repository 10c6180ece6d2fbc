// Reads the JSON that a plugin answers, field by field. Private to compiler/generators.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "runtime/base/result.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::generators {

/// The version of questions and answers, their member `schema`.
inline constexpr std::int64_t kPluginSchema = 1;

/// A value in a plugin's answer, with its path for messages.
class Field {
 public:
  Field(const boost::json::value& value, std::string path) : value_(value), path_(std::move(path)) {}

  Error error(const std::string& what) const { return Error(ErrorCode::kInvalidInput, path_ + ": " + what); }

  /// Returns an error unless the value is an object whose members are all in `known`.
  Status object(const std::set<std::string_view>& known) const {
    if (!value_.is_object()) return error("not an object");
    for (const auto& [key, unused] : value_.get_object())
      if (!known.contains(key)) return error("unknown member '" + printable(key) + "'");
    return {};
  }
  const boost::json::value& value() const { return value_; }
  const std::string& path() const { return path_; }

  Result<Field> member(const char* key) const {
    const boost::json::value* found = value_.get_object().if_contains(key);
    if (found == nullptr) return error("'" + std::string(key) + "' is missing");
    return Field(*found, path_ + "." + key);
  }
  Result<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most,
                               std::optional<std::int64_t> otherwise = {}) const {
    if (otherwise && !value_.get_object().contains(key)) return *otherwise;
    MILLRACE_ASSIGN(const Field field, member(key));
    if (!field.value().is_int64()) return field.error("not an integer");
    const std::int64_t n = field.value().get_int64();
    if (n < least || n > most)
      return field.error(std::to_string(n) + " is outside " + std::to_string(least) + ".." +
                         std::to_string(most));
    return n;
  }
  Result<std::string> name(const char* key) const {
    MILLRACE_ASSIGN(const Field field, member(key));
    if (!field.value().is_string() || !is_name(std::string_view(field.value().get_string()), 64))
      return field.error(
          "a name must have 1 to 64 of the characters A-Z a-z 0-9 _ - . (not - or . at the start)");
    return std::string(field.value().get_string());
  }

 private:
  const boost::json::value& value_;
  std::string path_;
};

/// Parses a plugin's answer, checks that it has no members except `members`, and passes it to `read`.
inline Status read_answer(const std::string& text, const std::set<std::string_view>& members,
                          const std::function<Status(const Field&)>& read) {
  boost::json::error_code code;
  const boost::json::value answer = boost::json::parse(text, code);
  if (code)
    return Error(ErrorCode::kInvalidInput,
                 "its answer is not JSON (" + code.message() + "): " + printable(text.substr(0, 80)));
  const Field root(answer, "answer");
  MILLRACE_TRY(root.object(members));
  MILLRACE_ASSIGN(const std::int64_t schema, root.integer("schema", 0, 1'000'000));
  if (schema != kPluginSchema) return root.error("'schema' is not " + std::to_string(kPluginSchema));
  return read(root);
}

}  // namespace millrace::compiler::generators
