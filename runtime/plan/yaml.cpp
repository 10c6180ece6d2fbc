#include "runtime/plan/yaml.hpp"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::runtime::plan::yaml {
namespace {

constexpr std::size_t kMaxNodes = 100000;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxBytes = 16U << 20U;  // most bytes of all scalars together; each alias counts too
constexpr std::uint64_t kMaxFileBytes = 1U << 20U;

Error at_line(const std::string& file, int line, const std::string& message) {
  return Error(ErrorCode::kInvalidInput, file + ":" + std::to_string(line) + ": " + message);
}

/// Converts yaml-cpp's nodes to Node. yaml-cpp represents an alias by the node to which it refers, so an
/// aliased node is converted again at each alias.
class Converter {
 public:
  explicit Converter(const std::string& file) : file_(file) {}

  Result<Node> convert(const YAML::Node& from) {
    Node out;
    out.line = from.Mark().line + 1;
    for (const YAML::Node& outer : open_)
      if (outer.is(from)) return error_at(file_, out, "an alias is inside the node that it refers to");
    if (from.IsScalar()) out.scalar = from.Scalar();
    bytes_ += out.scalar.size();
    if (++nodes_ > kMaxNodes || bytes_ > kMaxBytes || open_.size() > kMaxDepth)
      return error_at(
          file_, out,
          "too large: at most 100000 values, 64 levels and 16 MiB are read, after aliases are expanded");
    open_.push_back(from);
    if (from.IsScalar()) out.kind = Node::Kind::kScalar;
    if (from.IsSequence()) {
      out.kind = Node::Kind::kSequence;
      for (const YAML::Node& item : from) {
        MILLRACE_ASSIGN(Node converted, convert(item));
        out.items.push_back(std::move(converted));
      }
    }
    if (from.IsMap()) {
      out.kind = Node::Kind::kMapping;
      MILLRACE_TRY(add_entries(from, out));
    }
    open_.pop_back();
    return out;
  }

 private:
  Status add_entries(const YAML::Node& from, Node& out) {
    std::set<std::string> keys;
    for (const auto& entry : from) {
      const int line = entry.first.Mark().line + 1;
      if (!entry.first.IsScalar()) return at_line(file_, line, "a key must be plain text");
      const std::string& key = entry.first.Scalar();
      if (!keys.insert(key).second) return at_line(file_, line, "key '" + key + "' is given twice");
      MILLRACE_ASSIGN(Node value, convert(entry.second));
      value.line = line;
      bytes_ += key.size();
      out.entries.push_back({key, std::move(value)});
    }
    return {};
  }

  const std::string& file_;
  std::vector<YAML::Node> open_;  // the nodes being converted, the root first
  std::size_t nodes_ = 0, bytes_ = 0;
};

/// Checks the syntax of documents and ignores their content.
struct SyntaxCheck final : YAML::EventHandler {
  using Mark = YAML::Mark;
  using Text = const std::string&;
  using Anchor = YAML::anchor_t;
  using Style = YAML::EmitterStyle::value;
  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark&, Anchor) override {}
  void OnAlias(const Mark&, Anchor) override {}
  void OnScalar(const Mark&, Text, Anchor, Text) override {}
  void OnSequenceStart(const Mark&, Text, Anchor, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark&, Text, Anchor, Style) override {}
  void OnMapEnd() override {}
};

template <class Number>
bool parse_number(const std::string& text, Number& out) {
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, out);
  return code == std::errc() && stop == end;
}

std::string joined(std::initializer_list<std::string_view> words) {
  std::vector<std::string_view> sorted(words);
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (const auto& word : sorted) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

}  // namespace

Error error_at(const std::string& file, const Node& node, const std::string& message) {
  return at_line(file, node.line, message);
}

Result<Node> parse(const std::string& text, const std::string& file) {
  int line = 1;
  for (std::size_t start = 0; start < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (!is_utf8(std::string_view(text).substr(start, end - start)))
      return at_line(file, line, "is not UTF-8; save the file as UTF-8");
    start = end + 1;
  }
  try {
    // YAML::Load() ignores what follows the first document, and YAML::LoadAll() never ends if a document begins
    // with a stray ',' or ']'.
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    SyntaxCheck check;
    if (!parser.HandleNextDocument(check)) return at_line(file, 1, "is empty");
    if (parser.HandleNextDocument(check))
      return at_line(
          file, 1,
          "holds several documents ('---'), or text outside of a document; one document is expected");
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return at_line(file, 1, "is empty");
    return Converter(file).convert(root);
  } catch (const YAML::DeepRecursion& e) {
    return at_line(file, e.mark.line + 1, "nested deeper than 64 levels");
  } catch (const YAML::Exception& e) {
    return at_line(file, std::max(0, e.mark.line) + 1, "not YAML: " + e.msg);
  }
}

Result<Node> load(const std::filesystem::path& path) {
  MILLRACE_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  return parse(text, path.string());
}

Result<Mapping> Mapping::of(const Node& node, const std::string& file, const std::string& what,
                            std::initializer_list<std::string_view> known) {
  if (node.kind != Node::Kind::kMapping)
    return error_at(file, node, what + ": a mapping with the keys " + joined(known) + " is expected here");
  for (const auto& [key, value] : node.entries)
    if (std::find(known.begin(), known.end(), key) == known.end())
      return error_at(file, value, what + ": unknown key '" + key + "'; known keys: " + joined(known));
  return Mapping(node, file, what);
}

const Node* Mapping::find(std::string_view key) const {
  for (const auto& [name, value] : node_->entries)
    if (name == key && value.kind != Node::Kind::kNull) return &value;
  return nullptr;
}

Error Mapping::error(std::string_view key, const std::string& message) const {
  const Node* at = node_;
  for (const auto& [name, value] : node_->entries)
    if (name == key) at = &value;
  return error_at(file_, *at, what_ + ": " + std::string(key) + ": " + message);
}

Result<const Node*> Mapping::scalar(std::string_view key, bool required) const {
  const Node* node = find(key);
  if (node == nullptr && required) return error(what_ + ": key '" + std::string(key) + "' is missing");
  if (node != nullptr && node->kind != Node::Kind::kScalar)
    return error(key, "one value is expected, not a list or mapping");
  return node;
}

Result<std::string> Mapping::text(std::string_view key, std::optional<std::string> otherwise) const {
  MILLRACE_ASSIGN(const Node* node, scalar(key, !otherwise));
  return node == nullptr ? std::move(*otherwise) : node->scalar;
}

Result<std::uint64_t> Mapping::integer(std::string_view key, std::optional<std::uint64_t> otherwise) const {
  MILLRACE_ASSIGN(const Node* node, scalar(key, !otherwise));
  if (node == nullptr) return *otherwise;
  std::uint64_t value = 0;
  if (!parse_number(node->scalar, value))
    return error(key, "'" + node->scalar + "' is not a whole number of 0 or more");
  return value;
}

Result<double> Mapping::number(std::string_view key, std::optional<double> otherwise) const {
  MILLRACE_ASSIGN(const Node* node, scalar(key, !otherwise));
  if (node == nullptr) return *otherwise;
  double value = 0;
  if (!parse_number(node->scalar, value) || !std::isfinite(value))
    return error(key, "'" + node->scalar + "' is not a number");
  return value;
}

Result<bool> Mapping::boolean(std::string_view key, std::optional<bool> otherwise) const {
  MILLRACE_ASSIGN(const Node* node, scalar(key, !otherwise));
  if (node == nullptr) return *otherwise;
  if (node->scalar == "true") return true;
  if (node->scalar == "false") return false;
  return error(key, "'" + node->scalar + "' is neither true nor false");
}

Result<std::vector<std::string>> Mapping::texts(std::string_view key) const {
  std::vector<std::string> values;
  const Node* node = find(key);
  if (node == nullptr) return values;
  if (node->kind == Node::Kind::kScalar) return std::vector<std::string>{node->scalar};
  for (const auto& item : node->items) {
    if (item.kind != Node::Kind::kScalar)
      return error_at(file_, item, what_ + ": " + std::string(key) + ": plain text is expected");
    values.push_back(item.scalar);
  }
  if (node->kind == Node::Kind::kMapping) return error(key, "a list is expected");
  return values;
}

Result<std::vector<double>> Mapping::numbers(std::string_view key) const {
  MILLRACE_ASSIGN(const std::vector<std::string> words, texts(key));
  std::vector<double> values;
  for (const auto& word : words) {
    double value = 0;
    if (!parse_number(word, value) || !std::isfinite(value))
      return error(key, "'" + word + "' is not a number");
    values.push_back(value);
  }
  return values;
}

Result<const std::vector<Node>*> Mapping::sequence(std::string_view key) const {
  static const std::vector<Node> none;
  const Node* node = find(key);
  if (node == nullptr) return &none;
  if (node->kind != Node::Kind::kSequence) return error(key, "a list is expected");
  return &node->items;
}

}  // namespace millrace::runtime::plan::yaml
