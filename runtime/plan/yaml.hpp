// Reads YAML as Millrace's files use it: mappings with known keys, sequences, scalars. Every error names file, line
// and key. Only yaml.cpp includes yaml-cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::runtime::plan::yaml {

struct Node {
  struct Entry;  // a key and its value
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  int line = 0;  // counted from 1
  std::string scalar;
  std::vector<Node> items;     // a sequence's items
  std::vector<Entry> entries;  // a mapping's entries, in file order; keys are unique
};

struct Node::Entry {
  std::string key;
  Node value;
};

/// Parses one document. Every error message begins with `file`. Returns kInvalidInput for text that is not YAML,
/// several documents, duplicate keys, and more than 100,000 nodes (after aliases are expanded) or 64 levels.
Result<Node> parse(const std::string& text, const std::string& file);
/// Reads and parses the file at `path`, which may have at most 1 MiB.
Result<Node> load(const std::filesystem::path& path);

/// Returns the error kInvalidInput with the message "<file>:<line>: <message>".
Error error_at(const std::string& file, const Node& node, const std::string& message);

/// Typed access to a mapping with known keys. The node must outlive this object.
class Mapping {
 public:
  /// `what` names the mapping in messages: "cluster", "card".
  static Result<Mapping> of(const Node& node, const std::string& file, const std::string& what,
                            std::initializer_list<std::string_view> known);

  const Node* find(std::string_view key) const;  // null if the key is absent or its value is null

  // text(), integer(), number() and boolean() require the key if `otherwise` is empty.
  Result<std::string> text(std::string_view key, std::optional<std::string> otherwise = {}) const;
  Result<std::uint64_t> integer(std::string_view key, std::optional<std::uint64_t> otherwise = {}) const;
  Result<double> number(std::string_view key, std::optional<double> otherwise = {}) const;  // must be finite
  Result<bool> boolean(std::string_view key, std::optional<bool> otherwise = {}) const;
  Result<std::vector<std::string>> texts(std::string_view key) const;     // none if absent; one if a scalar
  Result<std::vector<double>> numbers(std::string_view key) const;        // none if absent; one if a scalar
  Result<const std::vector<Node>*> sequence(std::string_view key) const;  // empty if absent; never null

  int line() const { return node_->line; }
  Error error(const std::string& message) const { return error_at(file_, *node_, message); }
  Error error(std::string_view key, const std::string& message) const;  // "key: message", at the key's line

 private:
  Mapping(const Node& node, std::string file, std::string what)
      : node_(&node), file_(std::move(file)), what_(std::move(what)) {}
  Result<const Node*> scalar(std::string_view key, bool required) const;

  const Node* node_;
  std::string file_, what_;
};

}  // namespace millrace::runtime::plan::yaml
