#include "runtime/plan/yaml.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::runtime::plan::yaml {
namespace {

constexpr std::size_t kMaxNodes = 100000;
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxBytes = 16U << 20U;  // of scalars: an alias repeats one
constexpr std::uint64_t kMaxFileBytes = 1U << 20U;

Error at_line(const std::string& file, int line, const std::string& message) {
  return Error(ErrorCode::kInvalidInput, file + ":" + std::to_string(line) + ": " + message);
}

/// yaml-cpp recurses for each level of nesting and does not bound its stack well, so deep nesting is refused
/// before it parses the text.
bool nested_too_deep(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') depth = std::max(0, depth - 1);
    if (depth > kMaxDepth) return true;
  }
  int dashes = 0;  // "- - - -": a sequence a dash
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const bool opens = (text[i] == '-' || text[i] == '?' || text[i] == ':') && text[i + 1] == ' ';
    if (opens)
      ++dashes;
    else if (text[i] != ' ')
      dashes = 0;
    if (dashes > kMaxDepth) return true;
  }
  int indents = 0;  // lines that go ever further in
  std::size_t previous = 0, start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::size_t first = text.find_first_not_of(' ', start);
    if (first < end) {
      const std::size_t indent = first - start;
      indents = indent > previous ? indents + 1 : indent == 0 ? 0 : indents;
      previous = indent;
    }
    if (indents > 16 * kMaxDepth) return true;
    start = end + 1;
  }
  return false;
}

/// Builds a document's tree from the parser's events.
class TreeBuilder final : public YAML::EventHandler {
  using Mark = YAML::Mark;
  using Anchor = YAML::anchor_t;
  using Style = YAML::EmitterStyle::value;

 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  /// Call it when the document has been parsed to its end.
  Result<Node> take() {
    if (wrong_) return *wrong_;
    if (root_.node.kind == Node::Kind::kNull) return at_line(file_, 1, "is empty");
    return std::move(root_.node);
  }

  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark& mark, Anchor anchor) override { put(made(mark, Node::Kind::kNull, anchor)); }
  void OnScalar(const Mark& mark, const std::string&, Anchor anchor, const std::string& value) override {
    Branch one = made(mark, Node::Kind::kScalar, anchor);
    one.node.scalar = value;
    one.bytes = value.size();
    put(std::move(one));
  }
  void OnAlias(const Mark& mark, Anchor anchor) override {
    if (wrong_) return;
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end())
      return refuse(line_of(mark), "an alias is inside the node that it refers to");
    if (fits(known->second)) put(Branch(known->second));
  }
  void OnSequenceStart(const Mark& mark, const std::string&, Anchor anchor, Style) override {
    open(made(mark, Node::Kind::kSequence, anchor));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const Mark& mark, const std::string&, Anchor anchor, Style) override {
    open(made(mark, Node::Kind::kMapping, anchor));
  }
  void OnMapEnd() override { close(); }

 private:
  /// A node with its size and depth.
  struct Branch {
    Node node;
    Anchor anchor = 0;
    std::size_t count = 1, bytes = 0;  // aliases expanded
    int depth = 0;                     // of the levels below
    std::set<std::string> keys;
    std::optional<std::pair<std::string, int>> key;  // with its line; its value was not read yet
  };

  static int line_of(const Mark& mark) { return mark.line + 1; }

  void refuse(int line, const std::string& message) {
    if (!wrong_) wrong_ = at_line(file_, line, message);
    open_.clear();
    anchors_.clear();
  }

  void refuse_size(int line) {
    refuse(line, "too large: at most 100000 values, 64 levels and 16 MiB are read, aliases expanded");
  }

  Branch made(const Mark& mark, Node::Kind kind, Anchor anchor) const {
    Branch one;
    one.node.kind = kind;
    one.node.line = line_of(mark);
    one.anchor = anchor;
    return one;
  }

  /// Whether the document stays within its bounds with this branch. An open branch counts only what it holds
  /// so far.
  bool fits(const Branch& one) {
    std::size_t count = one.count, bytes = one.bytes;
    for (const Branch& outer : open_) {
      count += outer.count;
      bytes += outer.bytes;
    }
    if (count <= kMaxNodes && bytes <= kMaxBytes && static_cast<int>(open_.size()) + one.depth <= kMaxDepth)
      return true;
    refuse_size(one.node.line);
    return false;
  }

  bool is_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::kMapping && !open_.back().key;
  }

  void open(Branch one) {
    if (wrong_) return;
    if (is_key()) return refuse(one.node.line, "a key must be plain text");
    if (fits(one)) open_.push_back(std::move(one));
  }

  void close() {
    if (wrong_) return;
    Branch done = std::move(open_.back());
    open_.pop_back();
    put(std::move(done));
  }

  /// Puts a complete node into the open node that contains it.
  void put(Branch one) {
    if (wrong_) return;
    if (one.anchor != 0) {
      anchored_.count += one.count;
      anchored_.bytes += one.bytes;
      if (anchored_.count > kMaxNodes || anchored_.bytes > kMaxBytes) return refuse_size(one.node.line);
      anchors_.insert_or_assign(one.anchor, one);
    }
    one.anchor = 0;
    if (is_key()) return take_key(one.node);
    if (!fits(one)) return;
    if (open_.empty()) {
      root_ = std::move(one);
      return;
    }
    Branch& outer = open_.back();
    outer.count += one.count;
    outer.bytes += one.bytes;
    outer.depth = std::max(outer.depth, one.depth + 1);
    if (outer.node.kind == Node::Kind::kSequence) {
      outer.node.items.push_back(std::move(one.node));
      return;
    }
    one.node.line = outer.key->second;
    outer.node.entries.push_back({std::move(outer.key->first), std::move(one.node)});
    outer.key.reset();
  }

  void take_key(const Node& key) {
    if (key.kind != Node::Kind::kScalar) return refuse(key.line, "a key must be plain text");
    if (!open_.back().keys.insert(key.scalar).second)
      return refuse(key.line, "key '" + key.scalar + "' is given twice");
    open_.back().key.emplace(key.scalar, key.line);
  }

  std::string file_;
  std::vector<Branch> open_;  // from the root in
  Branch root_;
  std::map<Anchor, Branch> anchors_;
  Branch anchored_;  // the size of all anchored branches
  std::optional<Error> wrong_;
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
  if (nested_too_deep(text)) return at_line(file, 1, "nested deeper than 64 levels");
  try {
    // yaml-cpp's LoadAll() never ends if a document begins with a stray ',' or ']', so only two documents are
    // read.
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder document(file), second(file);
    if (!parser.HandleNextDocument(document)) return at_line(file, 1, "is empty");
    if (parser.HandleNextDocument(second))
      return at_line(file, 1, "holds several documents ('---'), or text outside of one; one is expected");
    return document.take();
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
